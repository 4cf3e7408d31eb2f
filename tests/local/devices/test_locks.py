"""Locks that only the end of everybody who inherited them frees."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scalecurve_local.devices.locks import Locks, StopRequestedError, take
from scalecurve_local.errors import StorageError, UnavailableError
from scalecurve_local.supervision.supervisor import identity
from tests.waiting import PATIENCE_S


def grab(*files: Path, wait: bool = False, stopped: bool = False, say: Callable[[str], None] = print) -> Locks:
    return take(files, "it", Path("/bundle"), wait=wait, say=say, stopped=lambda: stopped)


def test_one_at_a_time_and_the_holder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "locks" / "core-0.lock"
    held = grab(file)
    with pytest.raises(UnavailableError, match=rf"in use by another run \(process {os.getpid()}, bundle /bundle\)"):
        grab(file)
    held.release()
    grab(file).release()


def test_all_or_none(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    held = grab(two)
    with pytest.raises(UnavailableError):
        grab(one, two)
    grab(one).release()
    held.release()


def test_waiting_ends_when_a_stop_is_asked_for(tmp_path: Path) -> None:
    held, said = grab(tmp_path / "1"), list[str]()
    with pytest.raises(StopRequestedError):
        grab(tmp_path / "1", wait=True, stopped=True, say=said.append)
    assert "waiting" in said[0]
    held.release()


def test_a_child_that_inherited_it_keeps_it_and_is_waited_for_when_the_engine_is_dead(tmp_path: Path) -> None:
    """As a supervisor does that still ends processes."""
    file, said = tmp_path / "1", list[str]()
    held = grab(file)
    gone = f"{os.getpid()}/1/{identity(os.getpid()).rpartition('/')[2]}"
    file.write_text(json.dumps({"pid": os.getpid(), "identity": gone, "bundle": "/b"}))
    # It ends with its input, and that when this process has said that it waits.
    its_input, end = os.pipe()
    child = subprocess.Popen(["cat"], stdin=its_input, pass_fds=held.descriptors)
    os.close(its_input)
    held.release()

    def say(line: str) -> None:
        said.append(line)
        os.close(end)

    again = grab(file, wait=False, say=say)
    assert child.wait(PATIENCE_S) == 0
    assert said == ["waiting for the processes of an earlier run to end"]
    again.release()


def test_a_lock_file_that_was_removed_while_it_was_opened_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    held = grab(file)
    file.unlink()
    second = grab(file)
    with pytest.raises(UnavailableError):
        grab(file)
    held.release()
    second.release()


def test_a_folder_that_cannot_be_made_is_named() -> None:
    with pytest.raises(StorageError, match="/proc/nowhere"):
        grab(Path("/proc/nowhere/core-0.lock"))
