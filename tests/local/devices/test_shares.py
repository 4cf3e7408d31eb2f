"""Shares of a machine: the same for every worker count, nested, and refused with counts when there is not enough."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.planning.rotation import rotated
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.devices import shares
from scalecurve_local.devices.cores import Cores
from scalecurve_local.devices.gpus import Gpu
from scalecurve_local.devices.shares import Allotment, Machine, allot
from scalecurve_local.errors import EngineError, InputError, UnavailableError

GPUS = tuple(Gpu(f"GPU-{letter * 4}", "H200") for letter in "abcd")


@pytest.fixture
def unturned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares as the first repetition has them where the seed happens to begin at the first slot."""
    monkeypatch.setattr(shares, "rotated", lambda slots, seed, repetition: list(range(slots)))


def plan(workers: list[int], **spec: Any) -> tuple[TrialSpec, ...]:
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "x"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": workers, "batch": {"perWorker": 1}},
            "measure": {"repetitions": 1},
            **spec,
        },
    }
    return make_plan(ScalingExperiment.model_validate(tree)).trials


def flat(count: int, quota: float | None = None) -> Cores:
    return Cores(tuple((core,) for core in range(count)), quota)


def paired(count: int) -> Cores:
    """Two threads a core, numbered as most machines do: 0 and 0 + count together."""
    return Cores(tuple((core, core + count) for core in range(count)))


def by_count(trials: tuple[TrialSpec, ...], allotment: Allotment) -> dict[int, tuple[tuple[int, ...], ...]]:
    return {trial.point.workers: allotment.shares[trial.name].cores for trial in trials}


def cores_for(workers: list[int], cores: Cores, oversubscribe: bool = False, **spec: Any) -> dict[int, Any]:
    trials = plan(workers, **spec)
    return by_count(trials, allot(trials, Machine(cores), oversubscribe))


def test_the_largest_count_settles_the_share_of_all(unturned: None) -> None:
    assert cores_for([1, 2, 3], flat(8)) == {1: ((0, 1),), 2: ((0, 1), (2, 3)), 3: ((0, 1), (2, 3), (4, 5))}


def test_one_thread_of_a_physical_core_while_that_is_enough(unturned: None) -> None:
    assert cores_for([1, 2], paired(4)) == {1: ((0, 1),), 2: ((0, 1), (2, 3))}
    assert "siblings stay idle" in " ".join(allot(plan([1, 2]), Machine(paired(4)), False).notes)


def test_whole_physical_cores_when_more_threads_are_wanted(unturned: None) -> None:
    limits = {"resources": {"limits": {"cpu": 4}}}
    assert cores_for([1, 2], paired(4), **limits) == {1: ((0, 4, 1, 5),), 2: ((0, 4, 1, 5), (2, 6, 3, 7))}
    notes = allot(plan([1, 2], **limits), Machine(paired(4)), False).notes
    assert "workers have physical cores with all their hardware threads" in notes


def test_more_workers_than_physical_cores_share_them_and_it_is_said(unturned: None) -> None:
    assert cores_for([1, 6], paired(4))[6] == ((0,), (1,), (2,), (3,), (4,), (5,))
    assert "two workers may share a physical core" in " ".join(allot(plan([1, 6]), Machine(paired(4)), False).notes)


def test_a_quota_counts_as_cores_that_are_not_there(unturned: None) -> None:
    assert cores_for([1, 2], flat(8, 2.5)) == {1: ((0,),), 2: ((0,), (1,))}
    with pytest.raises(UnavailableError, match=r"3 workers with 1 core each need 3 cores, and 2 may be used"):
        cores_for([1, 3], flat(8, 2.5))


@pytest.mark.parametrize(("given", "each"), [(2, 2), ("2", 2), ("2000m", 2), (2.0, 2)])
def test_limits_cpu_is_the_share(given: Any, each: int) -> None:
    assert len(cores_for([1, 2], flat(8), resources={"limits": {"cpu": given}})[1][0]) == each


@pytest.mark.parametrize("given", [0, "500m", 1.5, "many", -1])
def test_parts_of_a_core_are_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"resources\.limits\.cpu: got .* whole number of cores"):
        cores_for([1, 2], flat(8), resources={"limits": {"cpu": given}})


def test_gpus_are_given_by_uuid_from_the_first_on(unturned: None) -> None:
    trials = plan([1, 2, 4])
    allotment = allot(trials, Machine(flat(64), GPUS), False)
    by_workers = {trial.point.workers: allotment.shares[trial.name] for trial in trials}
    assert by_workers[2].gpus == ("GPU-aaaa", "GPU-bbbb")
    assert by_workers[2].devices == ["GPU-aaaa", "GPU-bbbb"]
    assert {share.threads for share in by_workers.values()} == {16}
    assert not any(share.cores for share in by_workers.values())
    assert allotment.locks == tuple(f"gpu-{gpu.uuid}" for gpu in GPUS)


@pytest.mark.parametrize(("workers", "threads"), [([1], 0), ([1, 4], 1)])
def test_a_script_on_gpus_has_one_thread_where_torchrun_would_give_it_one(workers: list[int], threads: int) -> None:
    trials = plan(workers, workload={"program": "custom", "command": ["python", "train.py"]})
    allotment = allot(trials, Machine(flat(64), GPUS), False)
    assert {(share.launched, share.threads) for share in allotment.shares.values()} == {(True, threads)}
    assert any("OMP_NUM_THREADS is 1" in note for note in allotment.notes) == bool(threads)
    limited = plan(workers, workload={"program": "custom", "command": ["python"]}, resources={"limits": {"cpu": 4}})
    assert {share.threads for share in allot(limited, Machine(flat(64), GPUS), False).shares.values()} == {4}


def test_gpus_with_a_core_limit_are_pinned() -> None:
    trials = plan([1, 2], resources={"limits": {"cpu": 4, "nvidia.com/gpu": 1}})
    share = allot(trials, Machine(flat(64), GPUS), False).shares[trials[-1].name]
    assert (len(share.cores[0]), share.threads, len(share.gpus)) == (4, 4, len(share.cores))


def test_too_few_gpus() -> None:
    with pytest.raises(UnavailableError, match="8 workers need 8 GPUs, and 4 are visible; --oversubscribe"):
        allot(plan([1, 8]), Machine(flat(64), GPUS), False)
    trials = plan([1, 8])
    allotment = allot(trials, Machine(flat(64), GPUS), True)
    by_workers = {trial.point.workers: allotment.shares[trial.name] for trial in trials}
    assert not by_workers[1].oversubscribed
    assert by_workers[8].oversubscribed
    assert set(by_workers[8].gpus[:4]) == {gpu.uuid for gpu in GPUS}
    assert by_workers[8].gpus[4:] == ("GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd")


def test_a_device_axis_shares_out_both_kinds() -> None:
    trials = plan([1, 2], matrix={"device": ["cpu", "gpu"]})
    allotment = allot(trials, Machine(flat(4), GPUS), False)
    assert allotment.locks == ("core-0", "core-1", "core-2", "core-3", "gpu-GPU-aaaa", "gpu-GPU-bbbb")


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        (
            {"workload": {"device": "gpu"}},
            UnavailableError,
            "device: gpu needs a GPU, and this machine has no visible GPU",
        ),
        ({"workload": {"backend": "nccl"}}, UnavailableError, "backend: nccl needs a GPU"),
        (
            {"workload": {"backend": "nccl", "device": "cpu"}},
            InputError,
            "not supported on device cpu; use gloo or mpi",
        ),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, UnavailableError, r"nvidia\.com/gpu: 1 needs a GPU"),
        ({"resources": {"limits": {"nvidia.com/gpu": 2}}}, InputError, "a worker drives one GPU"),
        ({"placement": {"workersPerNode": 1}}, InputError, "layout 2x1 .* needs 2 nodes"),
    ],
)
def test_what_one_machine_cannot_do_is_refused(spec: Any, error: type[EngineError], said: str) -> None:
    with pytest.raises(error, match=said):
        allot(plan([1, 2], **spec), Machine(flat(4)), False)


counts = st.lists(st.integers(1, 40), min_size=1, max_size=6, unique=True)
machines = st.builds(
    Cores,
    st.integers(1, 32).flatmap(
        lambda count: st.sampled_from(
            [tuple((core,) for core in range(count)), tuple((core, core + count) for core in range(count))]
        )
    ),
    st.none() | st.floats(0.1, 80),
)


@given(counts, machines, st.none() | st.integers(1, 8), st.booleans())
def test_shares_are_equal_nested_and_apart(
    workers: list[int], cores: Cores, limit: int | None, oversubscribe: bool
) -> None:
    spec = {} if limit is None else {"resources": {"limits": {"cpu": limit}}}
    trials = plan(workers, **spec)
    try:
        allotment = allot(trials, Machine(cores), oversubscribe)
    except UnavailableError:
        assert not oversubscribe
        assert max(workers) * (limit or 1) > (cores.budget if limit is None else 0)
        return
    ordered = sorted((allotment.shares[trial.name] for trial in trials), key=lambda share: len(share.cores))
    assert len({(share.threads, len(share.cores[0])) for share in ordered}) == 1, "the same share for every count"
    for smaller, larger in pairwise(ordered):
        assert larger.cores[: len(smaller.cores)] == smaller.cores, "nested"
    for share in ordered:
        given = [core for part in share.cores for core in part]
        assert set(given) <= {thread for group in cores.siblings for thread in group}
        assert share.oversubscribed or len(given) == len(set(given)), "nobody shares a core"
        assert share.oversubscribed is (len(share.cores) * share.threads > cores.budget)
        assert set(allotment.locks) >= {f"core-{core}" for core in given}


@given(st.integers(1, 40), st.integers(0, 5))
def test_every_repetition_begins_at_another_slot_until_all_had_their_turn(slots: int, seed: int) -> None:
    orders = [rotated(slots, seed, repetition) for repetition in range(slots)]
    assert sorted(order[0] for order in orders) == list(range(slots))
    assert all(sorted(order) == list(range(slots)) for order in orders)
    assert rotated(slots, seed, slots) == orders[0]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_aligned_groups_of_devices_stay_together(workers: int) -> None:
    groups = {frozenset(rotated(8, 0, repetition)[:workers]) for repetition in range(8)}
    assert groups == {frozenset(range(first, first + workers)) for first in range(0, 8, workers)}


def test_small_counts_move_to_other_devices_between_repetitions() -> None:
    trials = plan([1, 2, 4], measure={"repetitions": 4})
    given = allot(trials, Machine(flat(64), GPUS), False)
    used = {
        count: {given.shares[trial.name].gpus for trial in trials if trial.point.workers == count}
        for count in (1, 2, 4)
    }
    assert used[1] == {(gpu.uuid,) for gpu in GPUS}
    assert {frozenset(pair) for pair in used[2]} == {
        frozenset({"GPU-aaaa", "GPU-bbbb"}),
        frozenset({"GPU-cccc", "GPU-dddd"}),
    }
    assert {frozenset(all_) for all_ in used[4]} == {frozenset(gpu.uuid for gpu in GPUS)}
    assert given.locks == tuple(f"gpu-{gpu.uuid}" for gpu in GPUS)
    other = allot(plan([1, 2, 4], measure={"repetitions": 4, "seed": 1}), Machine(flat(64), GPUS), False)
    assert other.shares != given.shares, "seeded"
