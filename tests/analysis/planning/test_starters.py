import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.planning.plan import steps_of
from scalecurve.planning.starters import starters, usable_cores, worker_counts
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.workload import DeviceType
from scalecurve_api.validation.validate import validate_text
from scalecurve_local.devices.cores import Cores
from scalecurve_local.devices.gpus import Gpu
from scalecurve_local.devices.shares import Machine, allot


@given(gpus=st.integers(0, 16), cores=st.integers(2, 256))
def test_every_machine_gets_experiments_that_are_right_and_fit_it(gpus: int, cores: int):
    chosen, said = starters(gpus, cores)
    assert [starter.name for starter in chosen] == ["quickstart", "quickstart-digits"]
    siblings = tuple((core,) for core in range(cores))
    machine = Machine(Cores(siblings), tuple(Gpu(f"GPU-{i}", "H200") for i in range(gpus)))
    for starter in chosen:
        validated = validate_text(starter.text, starter.name)
        assert validated.problems == ()
        (experiment,) = validated.experiments
        assert experiment.metadata.name == starter.name
        plan = make_plan(experiment)
        assert max(point.workers for point in plan.points) >= 2
        assert experiment.spec.measure.repetitions == 3
        assert experiment.spec.workload.device is (DeviceType.gpu if gpus >= 2 else DeviceType.cpu)
        assert not any(share.oversubscribed for share in allot(plan.trials, machine, False).shares.values())
        assert max(map(steps_of, plan.trials)) <= 500, "a quickstart is to be quick"
    assert said.startswith(f"{gpus} GPUs: " if gpus >= 2 else "one GPU" if gpus else "no GPU")


@pytest.mark.parametrize(
    ("siblings", "quota", "usable"),
    [
        ([(0,), (1,)], None, 2),
        ([(0, 1)], None, 2),
        ([(0,)], None, 1),
        ([(0, 4), (1, 5), (2, 6), (3, 7)], None, 4),
        ([(core,) for core in range(64)], 2.0, 2),
        ([(0, 2), (1, 3)], 1.5, 1),
    ],
)
def test_cores_that_can_stand_for_workers(siblings: list[tuple[int, ...]], quota: float | None, usable: int):
    cores = Cores(tuple(siblings), quota)
    found = usable_cores(len(cores.siblings), cores.budget)
    assert found == usable
    if found > 1:
        (first, _), _ = starters(0, found)
        (experiment,) = validate_text(first.text, "").experiments
        shares = allot(make_plan(experiment).trials, Machine(cores), False).shares
        assert not any(share.oversubscribed for share in shares.values())


def test_strong_and_weak_are_there_and_real_data_trains_to_accuracy():
    (first, digits), _ = starters(0, 2)
    (experiment,) = validate_text(first.text, "").experiments
    assert [mode.value for mode in experiment.spec.scaling.modes] == ["strong", "weak"]
    assert experiment.spec.scaling.workers == [1, 2]
    (real,) = validate_text(digits.text, "").experiments
    assert real.spec.measure.accuracy is not None
    assert real.spec.workload.data.source.value == "digits"


def test_one_core_cannot_show_scaling():
    for gpus in (0, 1):
        with pytest.raises(ValueError, match="a scaling experiment needs two workers"):
            starters(gpus, 1)


@given(most=st.integers(1, 10_000))
def test_worker_counts_are_powers_of_two_up_to_eight(most: int):
    counts = worker_counts(most)
    assert counts == [count for count in (1, 2, 4, 8) if count <= most]
