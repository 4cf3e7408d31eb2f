"""A user's own script with Horovod, by real ranks of mpirun: what Horovod is handed proves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.features.horovod.horovod_ranks import mpirun, reason
from tests.worker.sdk.test_proof import TRIAL, result_of
from tests.worker.worker_ranks import SCRIPTS

pytestmark = [pytest.mark.processes, pytest.mark.skipif(bool(reason()), reason=reason() or "-")]


def test_a_script_of_horovod_is_proved(tmp_path: Path) -> None:
    mpirun(tmp_path, 2, str(SCRIPTS / "horovod_own.py"), trial=TRIAL)
    record, result = result_of(tmp_path)
    assert result is None, record.checks
    (check,) = [check for check in record.checks if check.name == "NoCommunication"]
    # A layer of 200 x 30 and its bias.
    assert check.detail == "horovod:allreduce, at least 24,120 bytes a step on every rank"


def test_strangers_under_mpirun_are_no_job(tmp_path: Path) -> None:
    mpirun(tmp_path, 2, str(SCRIPTS / "horovod_own.py"), trial=TRIAL, STRANGERS="1")
    assert result_of(tmp_path)[1] == "NoCommunication"
