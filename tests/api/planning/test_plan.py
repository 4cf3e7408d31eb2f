import itertools
import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import (
    MAX_TRIALS,
    Plan,
    baseline_of,
    count_trials,
    expand_points,
    layouts_of,
    make_plan,
    sessions_in,
)
from scalecurve_api.spec.experiment import ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point
from scalecurve_api.validation.rules import check
from tests.api.example_experiments import experiment, spec

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
AXES: dict[str, list[Any]] = {
    "allReduce": ["auto", "ring", "tree"],
    "precision": ["fp32", "tf32", "bf16"],
    "options.compile": [True, False],
    "options.bucketCapMb": [1, 2.5, 25],
    "batch.perWorker": [8, 16],
    "env.MODE": ["a b", "a-b", "A B", "a=b", ""],
    "model": ["resnet18", "resnet50"],
}


@st.composite
def specs(draw: st.DrawFn) -> ExperimentSpec:
    names = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, max_size=3))
    matrix = {name: draw(st.lists(st.sampled_from(AXES[name]), unique=True, min_size=1, max_size=3)) for name in names}
    placement: dict[str, Any] = {}
    match draw(st.sampled_from(["none", "per node", "layouts"])):
        case "per node":
            workers = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16]), unique=True, min_size=1, max_size=4))
            placement = {"workersPerNode": draw(st.sampled_from([1, 2, 4, 8]))}
        case "layouts":
            layouts = draw(
                st.lists(st.sampled_from(["1x1", "1x2", "2x1", "1x4", "2x2", "4x1"]), min_size=1, max_size=5)
            )
            workers = sorted({int(layout[0]) * int(layout[2]) for layout in layouts})
            placement = {"layouts": layouts}
        case _:
            workers = draw(st.lists(st.integers(1, 64), unique=True, min_size=1, max_size=4))
    modes = draw(st.sampled_from([["weak"], ["strong"], ["strong", "weak"]]))
    parts: dict[str, list[Any]] = {"mode": modes, "workers": workers, **matrix}
    rule = st.dictionaries(st.sampled_from(sorted(parts)), st.integers(0, 3), min_size=1, max_size=3)
    exclude = [
        {name: parts[name][index % len(parts[name])] for name, index in each.items()}
        for each in draw(st.lists(rule, max_size=4))
    ]
    return spec(
        {
            "scaling/modes": modes,
            "scaling/workers": workers,
            "placement": placement,
            "matrix": matrix,
            "exclude": exclude,
            "measure": {"repetitions": draw(st.integers(1, 4)), "seed": draw(st.integers(0, 5))},
        }
    )


def planned(of: ExperimentSpec) -> Plan:
    return make_plan(ScalingExperiment.model_validate({**experiment().wire(), "spec": of.wire()}))


@settings(max_examples=50)
@given(specs())
def test_the_count_is_the_length_of_the_expansion(of: ExperimentSpec) -> None:
    assert count_trials(of) == len(list(expand_points(of))) * of.measure.repetitions == len(planned(of).trials)


@settings(max_examples=50)
@given(specs(), st.integers(0, 40))
def test_a_limited_count_is_exact_up_to_its_limit(of: ExperimentSpec, limit: int) -> None:
    exact = count_trials(of)
    counted = count_trials(of, limit)
    assert counted == exact if exact <= limit else counted > limit - of.measure.repetitions


@settings(max_examples=50)
@given(specs())
def test_each_repetition_of_every_point_stands_once(of: ExperimentSpec) -> None:
    plan = planned(of)
    wanted = [(point.name, r) for r in range(of.measure.repetitions) for point in plan.points]
    assert sorted((trial.point.name, trial.repetition) for trial in plan.trials) == sorted(wanted)
    assert [trial.repetition for trial in plan.trials] == sorted(trial.repetition for trial in plan.trials)


@settings(max_examples=50)
@given(specs(), st.integers(1, 4))
def test_a_further_session_repeats_every_point_and_changes_no_earlier_trial(of: ExperimentSpec, sessions: int) -> None:
    experiment_ = ScalingExperiment.model_validate({**experiment().wire(), "spec": of.wire()})
    before, after = make_plan(experiment_, sessions), make_plan(experiment_, sessions + 1)
    added = list(after.trials)[len(before.trials) :]
    assert list(after.trials)[: len(before.trials)] == list(before.trials)
    assert len(added) == count_trials(of)
    assert all(trial.session == sessions for trial in added)
    assert len(set(after.trials.names)) == len(after.trials.names)
    assert sessions_in(after.trials.names, after.points) == (sessions + 1 if added else 1)
    assert sessions_in(before.trials.names[: count_trials(of)], before.points) == 1


def test_sessions_are_those_of_the_plan_without_a_gap() -> None:
    points = make_plan(experiment({"scaling/workers": [1, 2]})).points
    one, two = (point.name for point in points[:2])
    assert sessions_in([], points) == 1
    assert sessions_in([f"{one}-r1", f"{two}-s2-r3", f"{one}-s3-r5"], points) == 3
    assert sessions_in([f"{one}-s9999-r1", "another-s2-r2", f"{one}-s2-r2/../x", f"x{one}-s2-r2"], points) == 1


@settings(max_examples=50)
@given(specs())
def test_consecutive_repetitions_have_different_orders(of: ExperimentSpec) -> None:
    plan, size = planned(of), len(list(expand_points(of)))
    orders = [[t.point.name for t in plan.trials[r * size : (r + 1) * size]] for r in range(of.measure.repetitions)]
    if size > 1:
        assert all(one != other for one, other in itertools.pairwise(orders))


@settings(max_examples=30)
@given(specs())
def test_a_plan_is_deterministic(of: ExperimentSpec) -> None:
    first, second = planned(of), planned(of)
    assert (first.points, list(first.trials)) == (second.points, list(second.trials))


@settings(max_examples=50)
@given(specs(), st.data())
def test_trials_are_a_sequence_like_any_other(of: ExperimentSpec, data: st.DataObject) -> None:
    trials = planned(of).trials
    eager = list(trials)
    assert len(trials) == len(eager)
    assert list(trials.names) == list(planned(of).trials.names) == [trial.name for trial in eager]
    assert [trials[i] for i in range(-len(eager), len(eager))] == eager * 2
    part = data.draw(st.slices(len(eager)))
    assert list(trials[part]) == eager[part]
    assert trials[part].names == tuple(trial.name for trial in eager[part])
    assert list(trials[part][::-1]) == eager[part][::-1]
    assert list(trials[:]) == eager
    assert list(reversed(trials)) == eager[::-1]
    with pytest.raises(IndexError):
        trials[len(eager)]


def test_trials_share_their_point_and_their_workload() -> None:
    plan = make_plan(experiment({"matrix": {"env.A": ["x", "y"]}, "measure": {"repetitions": 3}}))
    assert {id(trial.point) for trial in plan.trials} == {id(point) for point in plan.points}
    held = list(plan.trials)
    assert len({id(trial.workload) for trial in held}) == 2
    assert [trial.workload.env for trial in held] == [{"A": trial.point.axes["env.A"]} for trial in held]
    assert plan.trials != plan.trials[1:]
    assert plan.trials != list(plan.trials)


def test_a_plan_that_another_job_kind_carries_differs_in_that_alone() -> None:
    of = experiment({"matrix": {"env.A": ["x", "y"]}, "measure": {"repetitions": 3}})
    plan = make_plan(of)
    assert [workload.env for workload in plan.workloads] == [{"A": "x"}, {"A": "y"}]
    carried = plan.replace_runner(Runner.job_set)
    spec_of = of.spec.model_copy(update={"runner": Runner.job_set})
    assert (plan.spec, carried.spec) == (of.spec, spec_of)
    assert list(carried.trials) == list(make_plan(of.model_copy(update={"spec": spec_of})).trials)
    assert {trial.runner for trial in plan.trials} == {None}
    assert {id(trial.workload) for trial in carried.trials} == {id(workload) for workload in plan.workloads}


def test_a_plan_of_ten_thousand_trials_weighs_what_its_order_does() -> None:
    weights = []
    for repetitions in (1, 1, 1000):
        of = experiment({"scaling/workers": list(range(1, 11)), "measure": {"repetitions": repetitions}})
        tracemalloc.start()
        plan = make_plan(of)
        weights.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert len(plan.trials) == MAX_TRIALS
    assert weights[2] - weights[1] < 10 * MAX_TRIALS, "bytes; a trial itself has over a thousand"


@settings(max_examples=50)
@given(specs())
def test_names_are_unique_labels(of: ExperimentSpec) -> None:
    names = [trial.name for trial in planned(of).trials]
    assert len(set(names)) == len(names)
    assert all(LABEL.fullmatch(name) and len(name) <= 50 for name in names)


@settings(max_examples=50)
@given(specs())
def test_a_series_has_one_point_for_each_worker_count(of: ExperimentSpec) -> None:
    seen = [(point.series, point.workers) for point in expand_points(of)]
    assert len(set(seen)) == len(seen)


@settings(max_examples=50)
@given(specs())
def test_placements_nest_within_a_series_without_layouts(of: ExperimentSpec) -> None:
    if of.placement.layouts:
        return
    series: dict[str, list[Point]] = {}
    for point in expand_points(of):
        series.setdefault(point.series, []).append(point)
    for points in series.values():
        ordered = sorted(points, key=lambda point: point.workers)
        for small, large in itertools.pairwise(ordered):
            assert small.nodes <= large.nodes
            assert small.workers_per_node <= large.workers_per_node


@settings(max_examples=50)
@given(specs())
def test_a_placement_gives_the_worker_count(of: ExperimentSpec) -> None:
    for point in expand_points(of):
        assert point.nodes * point.workers_per_node == point.workers
        assert point.workers_per_node <= (of.placement.workers_per_node or point.workers)


@settings(max_examples=50)
@given(specs())
def test_batches_follow_the_mode(of: ExperimentSpec) -> None:
    for point in expand_points(of):
        if point.mode is Mode.strong:
            assert point.global_batch == 16
        else:
            assert point.batch_per_worker == point.axes.get("batch.perWorker", 8)
            assert point.global_batch == point.workers * int(point.batch_per_worker or 0)


def test_the_order_of_trials_of_a_known_plan() -> None:
    plan = make_plan(experiment({"scaling/workers": [1, 2, 4], "measure": {"repetitions": 3}}))
    assert [point.name for point in plan.points] == ["weak-1-1x1", "weak-2-1x2", "weak-4-1x4"]
    orders = ["".join(str(trial.point.workers) for trial in plan.trials[i : i + 3]) for i in (0, 3, 6)]
    # Stays as it is from release to release: an interrupted experiment is resumed under the same plan.
    assert orders == ["412", "124", "241"]


def test_another_seed_gives_another_order_and_other_data() -> None:
    changes = {"scaling/workers": [1, 2, 4, 8], "measure": {"repetitions": 2}}
    one = make_plan(experiment(changes))
    other = make_plan(experiment(changes | {"measure": {"repetitions": 2, "seed": 1}}))
    assert [t.name for t in one.trials] != [t.name for t in other.trials]
    assert {t.seed for t in one.trials}.isdisjoint(t.seed for t in other.trials)
    assert len({t.seed for t in one.trials}) == 2, "each repetition draws its own"


def test_a_million_million_combinations_are_counted_at_once() -> None:
    matrix = {f"env.A{i}": list(range(10)) for i in range(12)}
    huge = spec({"matrix": matrix, "exclude": [{"workers": 1, "env.A3": 4}, {"env.A0": 0, "env.A1": 0}]})
    points = 99 * 10**10 + 99 * 9 * 10**9
    assert count_trials(huge) == 3 * points
    assert count_trials(huge, MAX_TRIALS) > MAX_TRIALS


def test_an_expansion_that_excludes_nearly_everything_ends() -> None:
    matrix = {f"env.A{i}": list(range(10)) for i in range(12)}
    rules = [{f"env.A{i}": value} for i in range(12) for value in range(1, 10)]
    assert check(experiment({"matrix": matrix, "exclude": rules})) == []
    assert len(list(expand_points(spec({"matrix": matrix, "exclude": rules})))) == 2


def test_names_of_ten_thousand_long_values_stay_unique() -> None:
    values = [f"a long setting that is cut before it differs {i}" for i in range(1000)]
    points = expand_points(spec({"matrix": {"env.A": values, "env.B": ["x", "y", "z"]}, "scaling/workers": [1, 2]}))
    names = [point.name for point in points]
    assert len(set(names)) == len(names) == 6000


def test_series_that_read_alike_stay_apart() -> None:
    matrix = {"env.A": ["x", "x env.B=y"], "env.B": ["y", "y env.B=y"]}
    points = list(expand_points(spec({"matrix": matrix, "scaling/workers": [1]})))
    assert len({point.series for point in points}) == 4
    assert points[0].series == "weak env.A=x env.B=y"


def test_layouts_of_one_count_make_a_curve_for_each_number_of_nodes() -> None:
    points = list(
        expand_points(spec({"scaling/workers": [2, 4], "placement": {"layouts": ["1x2", "1x4", "2x1", "2x2"]}}))
    )
    assert {(p.series, p.layout) for p in points} == {
        ("weak nodes=1", "1x2"),
        ("weak nodes=1", "1x4"),
        ("weak nodes=2", "2x1"),
        ("weak nodes=2", "2x2"),
    }


def test_one_layout_a_count_makes_one_curve() -> None:
    # Found refused: the same placement as workersPerNode 8, spelled out, was cut into a curve a node count.
    changes = {"scaling/workers": [4, 8, 16], "placement": {"layouts": ["1x4", "1x8", "2x8"]}}
    assert {point.series for point in expand_points(spec(changes))} == {"weak"}
    assert check(experiment(changes)) == []


@pytest.mark.parametrize(
    ("placement", "workers", "expected"),
    [
        ({}, 6, [(1, 6)]),
        ({"workersPerNode": 4}, 2, [(1, 2)]),
        ({"workersPerNode": 4}, 8, [(2, 4)]),
        ({"workersPerNode": 4}, 6, []),
        ({"layouts": ["2x4", "1x8", "1x4"]}, 8, [(2, 4), (1, 8)]),
        ({"layouts": ["2x4"]}, 4, []),
    ],
)
def test_layouts(placement: dict[str, Any], workers: int, expected: list[tuple[int, int]]) -> None:
    assert layouts_of(spec({"placement": placement}), workers) == expected


def test_baselines() -> None:
    assert baseline_of(spec(), [4, 2, 8]) == 2
    assert baseline_of(spec({"scaling/baseline": 4}), [4, 2, 8]) == 4
    assert baseline_of(spec({"scaling/baseline": 1}), [4, 2, 8]) == 2, "excluded from this series"
    rules = [{"env.A": "y", "workers": 1}]
    plan = make_plan(experiment({"matrix": {"env.A": ["x", "y"]}, "exclude": rules, "scaling/workers": [1, 2, 4]}))
    assert plan.baselines == {"weak env.A=x": 1, "weak env.A=y": 2}


def test_a_trial_has_every_axis_written_into_its_workload() -> None:
    matrix = {"precision": ["bf16"], "options.compile": [True], "env.A": [1], "batch.perWorker": [32]}
    trial = make_plan(experiment({"matrix": matrix})).trials[0]
    assert (trial.workload.precision, trial.workload.options.compile, trial.workload.env) == ("bf16", True, {"A": "1"})
    assert trial.point.batch_per_worker == 32
    assert trial.point.series == "weak precision=bf16 options.compile=true env.A=1 batch.perWorker=32"


@pytest.mark.parametrize("precisions", [["fp32", "fp8"], ["fp8", "fp32"]])
def test_a_value_that_does_not_fit_is_named(precisions: list[str]) -> None:
    with pytest.raises(AxisError, match=r"matrix\.precision: got 'fp8'"):
        make_plan(experiment({"matrix": {"precision": precisions, "env.A": [1, 2]}}))


def test_windows_of_epochs_have_the_steps_of_their_point() -> None:
    batch = {"global": 64, "perWorker": 48}
    made = make_plan(
        experiment({"scaling/modes": ["strong", "weak"], "scaling/batch": batch, "measure": {"epochSamples": 1000}})
    )
    steps = {
        (each.point.mode.value, each.point.workers): (
            each.measure.warmup_steps,
            each.measure.max_warmup_steps,
            each.measure.steps_per_window,
        )
        for each in made.trials
    }
    assert steps == {
        ("strong", 1): (15,) * 3,
        ("strong", 2): (15,) * 3,
        ("weak", 1): (20,) * 3,
        ("weak", 2): (10,) * 3,
    }


def test_an_epoch_of_less_than_one_batch_is_refused() -> None:
    found = check(experiment({"scaling/batch": {"perWorker": 48}, "measure": {"epochSamples": 90}}))
    assert [(problem.path, problem.got) for problem in found] == [(("spec", "measure", "epochSamples"), 90)]
