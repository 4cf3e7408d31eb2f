"""Ranks by fork end as those of torchrun do, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.forked_ranks import fork_ranks

pytestmark = pytest.mark.processes

SCRIPT = """
import os, pathlib, signal, sys
rank, out = os.environ["RANK"], pathlib.Path(os.environ["SCALECURVE_OUT"])
if os.environ.get("FAULT"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if rank == "1":
        (out / "pid").write_text(str(os.getpid()))
        os.mkfifo(out / "written")
        signal.pause()
    while not (out / "written").exists():
        pass
    sys.exit("rank 0 has had enough")
(out / rank).write_text(f"{__name__} {os.environ['WORLD_SIZE']} {sys.argv == [__file__]} {'FAULT' in os.environ}")
"""


def test_a_rank_that_fails_ends_the_others_and_the_next_ranks_know_nothing_of_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with pytest.raises(AssertionError, match=r"exit 1\nrank 0 has had enough"):
        fork_ranks(tmp_path, 2, script, FAULT="yes")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()
    fork_ranks(tmp_path, 2, script)
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["__main__ 2 True False"] * 2


def test_a_server_that_is_killed_is_an_error_and_another_one_takes_its_place(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, signal\nif 'FAULT' in os.environ:\n    os.kill(os.getppid(), signal.SIGKILL)\n")
    with pytest.raises(AssertionError, match="the server of ranks ended"):
        fork_ranks(tmp_path, 1, script, FAULT="yes")
    fork_ranks(tmp_path, 1, script)
