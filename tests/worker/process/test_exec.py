from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalecurve_api.contract import failure_file
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial

pytestmark = pytest.mark.processes


PURE = [sys.executable, str(SCRIPTS / "pure.py")]


EXEC = [sys.executable, "-m", "scalecurve_worker", *PURE]


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    done = launch(tmp_path, [*EXEC[:3], "no-such-program"], make_trial(), fails=True)
    assert done.returncode == 127
    assert "workload.command: cannot run 'no-such-program': No such file or directory" in done.stderr
    assert '"reason":"BadWorkload"' in (tmp_path / failure_file(0)).read_text()
