"""Atomic file replacement, and paths that no name and no link leads out of."""

import io
import os
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.files import (
    UnsafePathError,
    Within,
    atomic_file,
    open_regular,
    read_regular,
    read_within,
    write_atomic,
)


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_atomic(target, "einß")
    write_atomic(target, b"two")
    assert target.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.json"]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "a", []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        kind = "folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"
        seen.append((kind, target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    write_atomic(target, b"x")
    assert seen == [("file", False), ("folder", True)]


def test_an_error_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    target = tmp_path / "a"
    write_atomic(target, b"old")
    with pytest.raises(TypeError), atomic_file(target) as file:
        file.write(["not bytes"])  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "none" / "a", b"x")


def test_concurrent_writers_never_mix(tmp_path: Path) -> None:
    target = tmp_path / "a"
    texts = [str(index) * 10_000 for index in range(8)]
    threads = [threading.Thread(target=write_atomic, args=(target, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_text() in texts
    assert os.listdir(tmp_path) == ["a"]


def layout(folder: Path) -> dict[str, bytes | str]:
    """Every path below, links as what they point to."""

    def content(path: Path) -> bytes | str:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}


ACTS: dict[str, Callable[[Within], object]] = {
    "write": lambda place: place.write(b"x"),
    "make": lambda place: (place / "inner").make(),
    "remove": lambda place: place.remove(),
    "remove inside": lambda place: (place / "thesis").remove(),
    "rename away": lambda place: (place / "thesis").rename(Within(place.root) / "stolen"),
    "rename there": lambda place: (Within(place.root) / "own").rename(place / "brought"),
    "read": lambda place: place.read(1 << 20),
    "read inside": lambda place: (place / "thesis" / "a.tex").read(1 << 20),
    "create": lambda place: place.created().__enter__(),
    "lock": lambda place: os.close((place / "lock").descriptor(os.O_RDWR | os.O_CREAT)),
}
HOSTILE = ["", ".", "..", "/", "/etc", "a/b", "../victim", "a/../../victim", "./a", "a\0b", "victim/"]


def home(folder: Path) -> tuple[Path, Within]:
    """A user's folder, and the tool's beside it."""
    (folder / "victim" / "thesis").mkdir(parents=True)
    (folder / "victim" / "thesis" / "a.tex").write_text("years of work")
    (folder / "tool" / "own").mkdir(parents=True)
    return folder / "victim", Within(folder / "tool")


@settings(max_examples=200)
@given(
    names=st.lists(
        st.one_of(st.sampled_from(HOSTILE), st.text(max_size=6), st.sampled_from(["victim", "thesis", "own"])),
        min_size=1,
        max_size=4,
    ),
    act=st.sampled_from(sorted(ACTS)),
)
def test_no_name_leads_out_of_the_folder(names: list[str], act: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        victim, tool = home(Path(folder))
        names = [name.replace("/etc", str(victim)) for name in names]
        before = layout(victim)
        place = tool
        try:
            for name in names:
                place /= name
            ACTS[act](place)
        except (OSError, UnicodeEncodeError):  # a lone surrogate is no name of a file
            pass
        else:
            assert not set(names) & set(HOSTILE)
        assert layout(victim) == before
        assert sorted(os.listdir(folder)) == ["tool", "victim"]


@settings(max_examples=200)
@given(
    at=st.integers(0, 3),
    target=st.sampled_from(["victim", "victim/thesis", "victim/thesis/a.tex", "absent", "tool/own", "."]),
    relative=st.booleans(),
    act=st.sampled_from(sorted(ACTS)),
)
def test_no_link_is_followed_wherever_it_lies(at: int, target: str, relative: bool, act: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        victim, tool = home(Path(folder))
        names = ["trials", "one", "logs", "thesis"]
        above = tool.path.joinpath(*names[:at])
        above.mkdir(parents=True, exist_ok=True)
        pointed = Path(folder, target)
        (above / names[at]).symlink_to(os.path.relpath(pointed, above) if relative else pointed)
        before = layout(victim)
        place = tool
        for name in names:
            place /= name
        for tried in (place, place.parent):
            if act == "write" and len(tried.names) == at + 1:
                tried.write(b"x")  # takes the place of the link itself
                assert not tried.path.is_symlink()
                (tried.path).unlink()
                tried.path.symlink_to(pointed)
            elif len(tried.names) > at:
                with pytest.raises((UnsafePathError, FileExistsError)):
                    ACTS[act](tried)
        assert layout(victim) == before
        assert sorted(os.listdir(folder)) == ["tool", "victim"]
        assert sorted(os.listdir(tool.path / "own")) == []


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "large", "growing"])
def test_only_regular_files_up_to_a_limit_are_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Within(tmp_path) / "rank-0.steps"
    if kind == "fifo":
        os.mkfifo(place.path)
    elif kind == "device":
        place = Within(Path("/dev")) / "zero"
    elif kind == "folder":
        place.make()
    elif kind == "large":
        place.write(b"x" * 101)
    else:
        place.write(b"x" * 101)
        fstat = os.fstat
        monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*fstat(fd)[:6], 5, *fstat(fd)[7:])))
    with pytest.raises(UnsafePathError, match=str(place.path)) as refused:
        place.read(100)
    assert ("is not a regular file" in str(refused.value)) == (kind in ("fifo", "device", "folder"))


def test_what_is_made_can_be_read_moved_and_removed(tmp_path: Path) -> None:
    place = Within(tmp_path / "new" / "root") / "a" / "b"
    assert (place.status(), place.entries()) == (None, [])
    place.make()
    place.make()
    (place / "f").write(b"1")
    (place / "f").write(b"2")
    (place / "link").path.symlink_to(tmp_path)
    assert place.entries() == ["f", "link"]
    assert (place / "f").read(1) == b"2"
    place.rename(place.parent / "c")
    (place.parent / "c").remove()
    (place.parent / "c").remove()
    assert place.parent.entries() == []
    assert tmp_path.is_dir()


def test_a_temporary_file_of_a_killed_process_is_in_nobody_s_way(tmp_path: Path) -> None:
    stale = tmp_path / f".a.{os.getpid()}.{threading.get_native_id()}.tmp"
    stale.symlink_to(tmp_path / "victim")
    write_atomic(tmp_path / "a", b"x")
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_another_makes_at_the_same_time_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, mkdir = Within(tmp_path), os.mkdir

    def twice(name: str, *mode: int, dir_fd: int | None = None) -> None:
        mkdir(name, *mode, dir_fd=dir_fd)
        mkdir(name, *mode, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr("scalecurve_api.files.os.mkdir", twice)
        (root / "a" / "b").make()
    assert (root / "a" / "b").is_folder()


@given(st.binary(max_size=40), st.integers(0, 50))
def test_a_file_is_read_whole_or_not_at_all(data: bytes, limit: int) -> None:
    assert read_within(io.BytesIO(data), limit) == (data if len(data) <= limit else None)


def test_a_limit_is_not_the_size_that_is_allocated(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"five!")
    tracemalloc.start()
    try:
        assert (Within(tmp_path) / "small").read(limit=4 << 30) == b"five!"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_only_a_regular_file_is_opened_and_nothing_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"whole")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"whole"
    with pytest.raises(UnsafePathError, match="larger than the limit of 4 bytes"):
        read_regular(tmp_path / "file", 4)
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UnsafePathError, match="not a regular file"):
            open_regular(place)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
