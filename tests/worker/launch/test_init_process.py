from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scalecurve_worker.launch.init_process import oom_kills
from tests.waiting import PATIENCE_S

LOOKS = """
    import os, sys
    from scalecurve_worker.launch.init_process import run_as_init
    def kills() -> int:
        return os.path.exists(sys.argv[1])
    print("up", flush=True)
    sys.exit(run_as_init(sys.argv[2:], kills))
"""


def begin(mark: str, *command: str) -> subprocess.Popen[str]:
    whole = [sys.executable, "-c", textwrap.dedent(LOOKS), mark, *command]
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("exit 0", 0), ("kill -9 $$", 137)])
def test_the_programs_end_is_its_own(tmp_path: os.PathLike[str], script: str, code: int) -> None:
    with begin(f"{tmp_path}/mark", "sh", "-c", script) as process:
        assert process.wait(PATIENCE_S) == code


def test_orphans_are_none_of_its_business(tmp_path: os.PathLike[str]) -> None:
    with begin(f"{tmp_path}/mark", "sh", "-c", "(sleep 0.1; exit 5) & sleep 0.5; exit 4") as process:
        assert process.wait(PATIENCE_S) == 4


def test_signals_are_handed_on(tmp_path: os.PathLike[str]) -> None:
    script = "trap 'exit 7' TERM; echo ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done"
    with begin(f"{tmp_path}/mark", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 7


def test_a_kill_for_memory_ends_it(tmp_path: os.PathLike[str]) -> None:
    with begin(f"{tmp_path}/mark", "sh", "-c", "echo ready; exec sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        open(f"{tmp_path}/mark", "w").close()
        assert process.wait(PATIENCE_S) == 137


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("", 0),
    ],
)
def test_kills_are_counted(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "events").write_text(text)
    assert oom_kills((str(tmp_path / "absent"), str(tmp_path / "events"))) == count
