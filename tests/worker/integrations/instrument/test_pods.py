"""A script that knows nothing of ScaleCurve, in the pods of a trial of two nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import unseal
from scalecurve_api.record.log_lines import unframe
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.trial import TrialPhase
from tests.proofs import unproved_at_any_load
from tests.worker.pods import CORES, end_started, on_nodes, start_pods
from tests.worker.worker_ranks import make_trial

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(len(CORES) < 2, reason="two pods need a core each, this machine gives one"),
]
SHAPES = Path(__file__).parent / "scripts" / "shapes.py"


@pytest.fixture(autouse=True)
def none_is_left() -> Iterator[None]:
    yield
    end_started()


def test_two_pods_leave_one_record(tmp_path: Path) -> None:
    command = [sys.executable, str(SHAPES), "images"]
    workload = {"program": "custom", "command": command, "launcher": "torchrun"}
    trial = on_nodes(make_trial(2, workload=workload, measure={"maxForeignLoad": 1.0}), 2)
    pods = start_pods(tmp_path, trial, 2)
    assert [pod.end() for pod in pods] == [0, 0], "\n".join(pods[0].log + pods[1].log)
    envelope = unseal(unframe(pods[0].log))
    record = assemble(trial, envelope.ranks, envelope.journals, Outcome(engine="kubernetes")).record
    assert (record.phase, record.message) == (TrialPhase.succeeded, "")
    assert unproved_at_any_load(record) == ()
    assert [(window.steps, window.samples) for window in record.windows if window.kind.value == "train"] == [
        (3, 24)
    ] * 2
