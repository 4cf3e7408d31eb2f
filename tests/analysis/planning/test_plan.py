from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle
from scalecurve.planning.plan import DEFAULT_STARTUP_SECONDS, Planned, plan, steps_of
from scalecurve.render.table import PENDING
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.analysis.synthetic import Truth, experiment, write_bundle

SMALL = {"modes": ["weak"], "workers": [1, 2], "repetitions": 3, "windows": 2, "steps_per_window": 5}
STEADY = Truth(step_s=lambda point: 0.1 * point.workers, step_cv=0.0, repetition_cv=0.0, warmup_steps=20)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("earlier"), experiment(**SMALL), STEADY, tables=False)


def changed(of: ScalingExperiment, **measure: object) -> ScalingExperiment:
    tree = of.wire()
    tree["spec"]["measure"] |= measure
    return ScalingExperiment.model_validate(tree)


@pytest.mark.parametrize(
    ("workload", "measure", "steps"),
    [
        ({"program": "torch"}, {}, 20 + 2 * 2 * 5),
        ({"program": "torch"}, {"exposedCommunication": False}, 20 + 2 * 5),
        ({"program": "torch"}, {"warmupSteps": 0}, 2 * 2 * 5),
        ({"program": "custom", "command": ["train"]}, {}, 20 + 2 * 5),
        # 8, 16, ..., 1 GiB are 28 sizes, each in place and not, 20 iterations after 5.
        ({"program": "allreduce"}, {}, 28 * 2 * 25),
        ({"program": "allreduce", "sizes": {"minBytes": 8, "maxBytes": 100, "factor": 10}}, {}, 2 * 2 * 25),
    ],
)
def test_steps_of_a_trial(workload: dict[str, object], measure: dict[str, object], steps: int):
    of = changed(experiment(**SMALL, workload=workload), **measure)
    assert {steps_of(trial) for trial in make_plan(of).trials} == {steps}


def test_what_is_not_known_stays_open():
    planned = plan(experiment(**SMALL))
    assert set(planned.seconds) == {None}
    assert planned.hours is planned.worker_hours is planned.cost is None
    trials, totals = planned.tables()
    assert all(row[-1] is PENDING for row in trials.rows)
    assert totals.rows == ((6, 2, PENDING, PENDING, PENDING),)


def test_what_may_carry_the_trials_is_named_unless_the_experiment_names_it():
    def said(of: ScalingExperiment) -> list[str]:
        return [note for note in plan(of).tables()[1].notes if "carries the trials" in note]

    of = experiment(**SMALL)
    tree = of.wire()
    tree["spec"]["placement"] = {"workersPerNode": 1}
    for each, carriers in ((of, "Job"), (ScalingExperiment.model_validate(tree), "JobSet, TrainJob, PyTorchJob, Job")):
        (note,) = said(each)
        assert note.endswith(f"carries the trials: {carriers}")
    assert not said(of.model_copy(update={"spec": of.spec.model_copy(update={"runner": Runner.job})}))


def test_the_smallest_detectable_change_is_named(tmp_path: Path):
    def power(repetitions: int, bundle: Path | None = None) -> str:
        of = experiment(**{**SMALL, "repetitions": repetitions})
        return " ".join(plan(of, earlier=open_bundle(bundle) if bundle else None).tables()[1].notes)

    assert "smallest detectable change of throughput 1.5 % within one session" in power(3)
    assert "4.8 % between two sessions (by the prior of 0.9 %, 4 degrees of freedom)" in power(3)
    assert "differ by 0.50 % (standard deviation, assumed" in power(3)
    assert "smallest detectable change of throughput 0.6 %" in power(12)
    assert "one repetition shows no change" in power(1)
    noisy = Truth(step_s=lambda point: 0.1, step_cv=0.0, repetition_cv=0.05)
    earlier = write_bundle(tmp_path, experiment(**SMALL), noisy, tables=False)
    assert "(standard deviation, as in synthetic)" in power(3, earlier)
    assert "0.50 %" not in power(3, earlier)


@given(step=st.floats(1e-4, 100), startup=st.floats(0, 1000), price=st.floats(0, 1000), repetitions=st.integers(1, 5))
def test_totals_add_up(step: float, startup: float, price: float, repetitions: int):
    of = experiment(**{**SMALL, "repetitions": repetitions}, cost={"perWorkerHour": price})
    planned = plan(of, step_seconds=step, startup_seconds=startup)
    seconds = startup + step * (20 + 2 * 2 * 5)
    assert planned.seconds == pytest.approx([seconds] * 2 * repetitions)
    assert planned.hours == pytest.approx(2 * repetitions * seconds / 3600)
    assert planned.worker_hours == pytest.approx((1 + 2) * repetitions * seconds / 3600)
    assert planned.cost == pytest.approx(planned.worker_hours * price)


def test_an_earlier_run_of_the_same_tells_how_long_each_point_takes(earlier: Path):
    planned = plan(experiment(**SMALL), earlier=open_bundle(earlier))
    steps = 20 + 2 * 2 * 5
    for trial, seconds in zip(planned.plan.trials, planned.seconds, strict=True):
        shared = 0.9 if trial.point.workers > 1 else 1.0  # the windows without communication are a tenth quicker
        assert seconds == pytest.approx(0.1 * trial.point.workers * (steps - 10 + 10 * shared), rel=1e-6)
    assert "6 of 6 trials use times from synthetic (same point and workload)" in planned.tables()[1].notes


def test_a_longer_measurement_takes_longer_by_its_steps(earlier: Path):
    bundle = open_bundle(earlier)
    before = dict.fromkeys((1, 2), 0.0)
    for trial, seconds in zip(*timed(plan(experiment(**SMALL), earlier=bundle)), strict=True):
        before[trial.point.workers] = seconds
    longer = changed(experiment(**SMALL), windows=20, repetitions=7, seed=1)
    for trial, seconds in zip(*timed(plan(longer, earlier=bundle)), strict=True):
        shared = 0.9 if trial.point.workers > 1 else 1.0
        more = 18 * 5 * 0.1 * trial.point.workers * (1 + shared)
        assert seconds - before[trial.point.workers] == pytest.approx(more, rel=1e-6)


def timed(planned: Planned) -> tuple[tuple[TrialSpec, ...], list[float]]:
    return planned.plan.trials, [seconds for seconds in planned.seconds if seconds is not None]


@pytest.mark.parametrize(
    "other",
    [
        {"workload": {"model": "resnet50"}},
        {"workload": {"precision": "bf16"}},
        {"workload": {"env": {"OMP_WAIT_POLICY": "active"}}},
        {"scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 32}}},
        {"measure": {"accuracy": {"epochs": 3}}, "workload": {"data": {"source": "digits"}}},
    ],
)
def test_another_workload_or_batch_tells_nothing(earlier: Path, other: dict[str, dict[str, object]]):
    tree = experiment(**SMALL).wire()
    for part, fields in other.items():
        tree["spec"][part] = {**tree["spec"].get(part, {}), **fields}
    planned = plan(ScalingExperiment.model_validate(tree), earlier=open_bundle(earlier))
    assert set(planned.seconds) == {None}


def test_a_named_step_time_fills_in_what_the_bundle_does_not_know(earlier: Path):
    wider = experiment(**{**SMALL, "workers": [1, 2, 4]})
    bundle = open_bundle(earlier)
    planned = plan(wider, step_seconds=1.0, earlier=bundle)
    filled = [s for s, t in zip(planned.seconds, planned.plan.trials, strict=True) if t.point.workers == 4]
    assert filled == [DEFAULT_STARTUP_SECONDS + 40] * 3
    partly = plan(wider, earlier=bundle)
    known = [seconds for seconds in partly.seconds if seconds is not None]
    assert len(known) == 6
    assert partly.hours == pytest.approx(sum(known) / 3600)
    (_, open_, *_) = partly.tables()[1].notes
    assert open_.startswith("3 of 9 trials have no time estimate and are missing from the totals: use --step-time")


def test_failed_trials_tell_nothing(tmp_path: Path):
    of = experiment(**SMALL)
    endings = {trial.name: (TrialPhase.failed, "RankFailed", "") for trial in make_plan(of).trials}
    folder = write_bundle(tmp_path / "b", of, STEADY, endings=endings, tables=False)
    assert set(plan(of, earlier=open_bundle(folder)).seconds) == {None}
