"""Real scripts at one worker and at two, whose work is the same or is not: what their records tell."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from scalecurve.bundle.measurement import MeasuredPoint
from scalecurve.bundle.trial import Trial
from scalecurve.curves.same_work import other_work
from scalecurve_api.contract import CORES_ENV, INSTRUMENT_ENV
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.pods import CORES
from tests.worker.worker_ranks import make_trial, records

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(len(CORES) < 2, reason="two ranks need a core each, this machine gives one"),
]

SCRIPTS = Path(__file__).parent / "scripts"
MEASURE = {
    "maxForeignLoad": 1.0,
    "warmupSteps": 4,
    "maxWarmupSteps": 4,
    "windows": 3,
    "stepsPerWindow": 9,
    "exposedCommunication": False,
}
SIZES = {"work": 8, "shapes": 4, "fakes": 8}


def measured(out: Path, script: str, kind: str, workers: int) -> TrialRecord:
    """The record of a script, of ranks that have loaded torch already."""
    out.mkdir()
    command = [str(SCRIPTS / f"{script}.py"), kind]
    trial = make_trial(workers, workload={"program": "custom", "command": command}, measure=MEASURE)
    batches = {"batch_per_worker": SIZES[script], "global_batch": SIZES[script] * workers}
    trial = trial.model_copy(update={"point": trial.point.model_copy(update=batches)})
    cores = ";".join(str(CORES[rank % len(CORES)]) for rank in range(workers))
    more = {INSTRUMENT_ENV: "auto", CORES_ENV: cores, **rendezvous()}
    fork_ranks(out, workers, SCRIPTS / "forked.py", *command, trial=trial, **more)
    ranks = dict(enumerate(records(out, workers)))
    journals = {rank: (out / f"rank-{rank}.steps").read_bytes() for rank in ranks}
    return assemble(trial, ranks, journals, Outcome(engine="local")).record


def point(out: Path, script: str, kind: str, workers: int) -> MeasuredPoint:
    record = measured(out, script, kind, workers)
    # A machine that stalls before each window looks like work there.
    assert record.reason in (None, "UntimedWork"), record.message
    record = record.model_copy(update={"phase": TrialPhase.succeeded})
    return MeasuredPoint(record.trial.point, (Trial(record.trial, out, record),))


def differences(folder: Path, script: str, kind: str) -> list[tuple[str, str]]:
    one, two = (point(folder / str(workers), script, kind, workers) for workers in (1, 2))
    return [(other.reason.value, other.detail) for other in other_work(two, one)]


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("fewer_layers", {"DifferentFlops", "DifferentParameters"}),
        ("frozen", {"DifferentFlops", "DifferentParameters"}),
        ("thrown_away", {"DifferentFlops", "DifferentInputs"}),
        ("shorter", {"DifferentFlops", "DifferentInputs"}),
        ("shorter_ragged", {"DifferentFlops", "DifferentInputs"}),
        ("third_step_without_backward", {"FewerPasses"}),
        ("narrow", {"DifferentArithmetic"}),
        ("feigned_evaluation", {"DifferentPauses"}),
    ],
)
def test_other_work_at_two_workers_is_seen(tmp_path: Path, kind: str, reasons: set[str]) -> None:
    seen = {reason for reason, _ in differences(tmp_path, "work", kind)}
    assert reasons - {"DifferentFlops"} <= seen <= {*reasons, "DifferentFlops"}, "FLOPs are of three steps alone"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("all_frozen_but_the_head", "DifferentParameters"),
        ("thrown_away_later", "DifferentInputs"),
        ("shorter_later", "DifferentInputs"),
        ("other_shape", "DifferentInputs"),
        ("micro_batch_left_out", "DifferentInputs"),
        ("every_other_step_without_backward", "FewerPasses"),
        ("fourth_step_without_backward", "FewerPasses"),
        ("body_without_gradient", "DifferentFlops"),
        ("narrow_weights", "DifferentArithmetic"),
        ("evaluated_in_between", "DifferentPauses"),
        ("sdk_fewer_layers", "DifferentParameters"),
        ("sdk_shorter", "DifferentFlops"),
        ("sdk_thrown_away", "DifferentFlops"),
        ("sdk_narrow", "DifferentArithmetic"),
    ],
)
def test_fakes_are_told_as_other_work(tmp_path: Path, kind: str, reason: str) -> None:
    assert reason in {seen for seen, _ in differences(tmp_path, "fakes", kind)}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nothing_exchanged", "NoCommunication"),
        ("one_number_exchanged", "ReplicasDiverged"),
        ("same_samples", "SameData"),
        ("sdk_same_samples", "SameData"),
        ("sdk_twice_the_samples", "WrongSamples"),
    ],
)
def test_fakes_are_invalid_by_themselves(tmp_path: Path, kind: str, reason: str) -> None:
    assert measured(tmp_path / "2", "fakes", kind, 2).reason == reason


@pytest.mark.parametrize(
    ("kind", "passed"),
    [("little_exchanged", None), ("compressed", True), ("signs", True), ("sparse", True), ("adapters", True)],
)
def test_gradients_are_exchanged_or_the_point_is_unproved(tmp_path: Path, kind: str, passed: bool | None) -> None:
    record = measured(tmp_path / "2", "work", kind, 2)
    (check,) = (check for check in record.checks if check.name == "NoCommunication")
    assert check.passed is passed, check.detail


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("work", "padded"),
        ("work", "dropped_layers"),
        ("work", "orthogonal"),
        ("work", "adapters"),
        ("work", "two_views"),
        ("work", "micro_batches"),
        ("work", "masked"),
        ("work", "evaluating"),
        ("shapes", "images"),
        ("shapes", "tokens"),
        ("shapes", "ahead"),
        ("shapes", "sharded"),
    ],
)
def test_honest_scripts_do_the_same_work(tmp_path: Path, script: str, kind: str) -> None:
    assert differences(tmp_path, script, kind) == []
