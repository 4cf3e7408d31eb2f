"""A user's nn.DataParallel: one process that keeps the records of all its GPUs, which this machine feigns."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from scalecurve_api.contract import INSTRUMENT_ENV
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.worker_ranks import make_trial, records

pytestmark = pytest.mark.processes

SCRIPTS = Path(__file__).parent / "scripts"
MEASURE = {"maxForeignLoad": 1.0, "warmupSteps": 4, "maxWarmupSteps": 4, "windows": 3, "stepsPerWindow": 9}


def trial_of(kind: str) -> tuple[TrialSpec, list[str]]:
    command = [str(SCRIPTS / "data_parallel.py"), kind]
    workload = {"program": "custom", "command": command, "singleProcess": True, "device": "auto"}
    return make_trial(2, workload=workload, measure=MEASURE), command


def measured(out: Path, kind: str) -> TrialRecord:
    out.mkdir()
    trial, command = trial_of(kind)
    given = {INSTRUMENT_ENV: "auto", **rendezvous()}
    fork_ranks(out, 1, SCRIPTS / "forked.py", *command, trial=trial, fails=False, **given)
    ranks = dict(enumerate(records(out, 2)))
    journals = {rank: (out / f"rank-{rank}.steps").read_bytes() for rank in ranks}
    return assemble(trial, ranks, journals, Outcome(engine="local")).record


def test_one_process_proves_itself_on_two_devices(tmp_path: Path) -> None:
    record = measured(tmp_path / "both", "both")
    checks = {check.name: (check.passed, check.detail) for check in record.checks}
    for name in ("NoCommunication", "SameData", "NotTrained", "ReplicasDiverged", "WrongSamples", "WrongWorldSize"):
        assert checks[name][0] is True, checks[name]
    assert checks["NoCommunication"][1].startswith("every GPU ran the model")
    (window, *_) = [window for window in record.windows if window.kind == "train"]
    assert (window.samples, window.inputs) == (9 * 8, 9 * 8 * 8), "each sample once"
    assert record.flops_per_sample is None
    assert "threads" in str(record.options["flops"])


def test_a_device_that_does_nothing_is_seen(tmp_path: Path) -> None:
    record = measured(tmp_path / "first", "first")
    (check,) = (check for check in record.checks if check.name == "NoCommunication")
    assert check.passed is False
    assert "not every one of 2 GPUs ran the model" in check.detail


def test_on_cpus_it_is_refused(tmp_path: Path) -> None:
    trial, command = trial_of("bare")
    given = {INSTRUMENT_ENV: "auto"} | rendezvous()
    printed = fork_ranks(tmp_path, 1, SCRIPTS / "forked.py", *command, trial=trial, fails=True, **given)
    assert "the model is on the CPU, one device for a process, where nn.DataParallel does nothing" in printed
