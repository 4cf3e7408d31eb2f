"""Spec -> ordered trials: pure, deterministic, seeded; counting never expands.

Within a repetition the points are shuffled, and repetitions follow one another, so a slow drift of the machine
falls on every point alike and is not aliased into the worker count (blocked repetitions do just that).
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scalebench_api.axes import resolve
from scalebench_api.experiment import AxisValue, Batch, ExperimentSpec, Mode, ScalingExperiment, Workload
from scalebench_api.model import canonical_json
from scalebench_api.trial import Point, TrialSpec

MAX_TRIALS = 10_000
_MAX_NAME = 44

Rule = Mapping[str, AxisValue]


@dataclass(frozen=True)
class Plan:
    """The ordered trials of one experiment, and their points by first appearance in the spec."""

    experiment: str
    points: tuple[Point, ...]
    trials: tuple[TrialSpec, ...]

    @property
    def worker_runs(self) -> int:
        """Sum of worker counts over trials: times seconds a trial gives worker-seconds."""
        return sum(trial.point.workers for trial in self.trials)


def layouts_of(spec: ExperimentSpec, workers: int) -> list[tuple[int, int]]:
    """``(nodes, workers a node)`` under which ``workers`` run; empty where the placement gives no such count."""
    if spec.placement.layouts:
        pairs = [tuple(map(int, layout.split("x"))) for layout in spec.placement.layouts]
        return [(nodes, each) for nodes, each in pairs if nodes * each == workers]
    each = min(workers, spec.placement.workers_per_node or workers)
    return [(workers // each, each)] if workers % each == 0 else []


def count_trials(spec: ExperimentSpec, limit: int | None = None) -> int:
    """How many trials the spec expands to, excluded combinations left out.

    Axes are never multiplied out: values that no exclusion names are counted together. With ``limit`` the
    count stops as soon as it is passed, so the answer is then only known to be larger.
    """
    axes = [(name, _distinct(values)) for name, values in spec.matrix.items()]
    bound = None if limit is None else limit // spec.measure.repetitions
    points = 0
    for base in _base_points(spec):
        points += _count_free(axes, _still_possible(spec.exclude, base), bound)
        if bound is not None and points > bound:
            break
    return points * spec.measure.repetitions


def expand_points(spec: ExperimentSpec) -> Iterator[Point]:
    """Every point that is not excluded, in the order of the spec."""
    names = list(spec.matrix)
    values = [_distinct(spec.matrix[name]) for name in names]
    several_nodes = len({nodes for n in spec.scaling.workers for nodes, _ in layouts_of(spec, n)}) > 1
    by_nodes = several_nodes and bool(spec.placement.layouts)
    for base in _base_points(spec):
        nodes, each = map(int, str(base["layout"]).split("x"))
        for combination in itertools.product(*values):
            axes = dict(zip(names, combination, strict=True))
            if any(_matches(rule, {**base, **axes}) for rule in spec.exclude):
                continue
            yield _point(spec, Mode(str(base["mode"])), nodes, each, axes, by_nodes)


def make_plan(experiment: ScalingExperiment) -> Plan:
    """The ordered trials.

    Raises:
        AxisError: when a matrix value does not fit its field (``rules.check`` reports all of them).
    """
    spec = experiment.spec
    points = tuple(expand_points(spec))
    resolved: dict[str, Workload] = {}
    for point in points:
        key = canonical_json(dict(point.axes))
        if key not in resolved:
            resolved[key] = resolve(spec.workload, spec.scaling.batch, point.axes)[0]
    trials = [
        TrialSpec(
            experiment=experiment.metadata.name,
            name=f"{points[index].name}-r{repetition + 1}",
            point=points[index],
            repetition=repetition,
            seed=_seed(spec.measure.seed, repetition),
            workload=resolved[canonical_json(dict(points[index].axes))],
            measure=spec.measure,
            cost=spec.cost,
            runner=spec.runner,
            resources=spec.resources,
            deadline_seconds=spec.deadline_seconds,
        )
        for repetition, order in enumerate(_orders(len(points), spec.measure.repetitions, spec.measure.seed))
        for index in order
    ]
    return Plan(experiment=experiment.metadata.name, points=points, trials=tuple(trials))


def baseline_of(spec: ExperimentSpec, workers: Sequence[int]) -> int:
    """The worker count that a series with these counts is measured against."""
    named = spec.scaling.baseline
    return min(workers) if named == "auto" or named not in workers else named


def _base_points(spec: ExperimentSpec) -> Iterator[dict[str, AxisValue]]:
    for mode in dict.fromkeys(spec.scaling.modes):
        for workers in dict.fromkeys(spec.scaling.workers):
            for nodes, each in dict.fromkeys(layouts_of(spec, workers)):
                yield {"mode": mode.value, "workers": workers, "layout": f"{nodes}x{each}"}


def _distinct(values: Sequence[AxisValue]) -> list[AxisValue]:
    # True == 1 == 1.0 in Python; as axis values they are three.
    return list({(type(value), value): value for value in values}.values())


def _same(given: AxisValue, value: AxisValue) -> bool:
    return given == value and isinstance(given, bool) == isinstance(value, bool)


def _matches(rule: Rule, values: Rule) -> bool:
    return bool(rule) and all(key in values and _same(given, values[key]) for key, given in rule.items())


def _still_possible(rules: Sequence[Rule], chosen: Rule) -> list[Rule]:
    """The rules that ``chosen`` does not contradict, without the parts it already satisfies."""
    return [
        {key: value for key, value in rule.items() if key not in chosen}
        for rule in rules
        if rule and all(key not in chosen or _same(value, chosen[key]) for key, value in rule.items())
    ]


def _count_free(axes: list[tuple[str, list[AxisValue]]], rules: list[Rule], bound: int | None) -> int:
    """Combinations of ``axes`` that no rule excludes; an emptied rule excludes all of them."""
    names = {name for name, _ in axes}
    rules = [rule for rule in rules if rule.keys() <= names]
    if any(not rule for rule in rules):
        return 0
    if not rules:
        total = 1
        for _, values in axes:
            total *= len(values)
        return total
    mentioned = next(i for i, (name, _) in enumerate(axes) if any(name in rule for rule in rules))
    name, values = axes[mentioned]
    rest = axes[:mentioned] + axes[mentioned + 1 :]
    named = [value for value in values if any(name in rule and _same(rule[name], value) for rule in rules)]
    total = 0
    if len(values) > len(named):
        untouched = [rule for rule in rules if name not in rule]
        total = (len(values) - len(named)) * _count_free(rest, untouched, bound)
    for value in named:
        if bound is not None and total > bound:
            break
        total += _count_free(rest, _still_possible(rules, {name: value}), bound)
    return total


def _point(
    spec: ExperimentSpec, mode: Mode, nodes: int, each: int, axes: dict[str, AxisValue], by_nodes: bool
) -> Point:
    workers = nodes * each
    batch = _batch(spec.scaling.batch, axes)
    total, per_worker = None, None
    if mode is Mode.strong and batch.global_ is not None:
        total, per_worker = batch.global_, batch.global_ // workers
    if mode is Mode.weak and batch.per_worker is not None:
        total, per_worker = batch.per_worker * workers, batch.per_worker
    parts = [mode.value, *([f"nodes={nodes}"] if by_nodes else [])]
    parts += [f"{name}={_text(value)}" for name, value in axes.items()]
    return Point(
        mode=mode,
        workers=workers,
        nodes=nodes,
        workers_per_node=each,
        global_batch=total,
        batch_per_worker=per_worker,
        axes=axes,
        series=" ".join(parts),
        name=_point_name(mode, nodes, each, axes),
    )


def _batch(batch: Batch, axes: Mapping[str, AxisValue]) -> Batch:
    given = {name.removeprefix("batch."): value for name, value in axes.items() if name.startswith("batch.")}
    return Batch.model_validate({**batch.wire(), **given}) if given else batch


def _text(value: AxisValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _point_name(mode: Mode, nodes: int, each: int, axes: Mapping[str, AxisValue]) -> str:
    """A DNS label that is readable where it can be and unique always (a digest where spelling loses something)."""
    head = f"{mode.value}-{nodes * each}-{nodes}x{each}"
    if not axes:
        return head
    spelled = "-".join(re.sub(r"[^a-z0-9]+", "-", _text(value).lower()).strip("-") or "0" for value in axes.values())
    digest = hashlib.sha256(canonical_json([[k, _text(v), type(v).__name__] for k, v in axes.items()]).encode())
    name = f"{head}-{spelled}"
    room = _MAX_NAME - 7
    return f"{name[:room].rstrip('-')}-{digest.hexdigest()[:6]}"


def _seed(seed: int, repetition: int) -> int:
    return (seed * 1_000_003 + repetition) % (1 << 31)


def _orders(points: int, repetitions: int, seed: int) -> Iterator[list[int]]:
    previous: list[int] = []
    for repetition in range(repetitions):
        order = list(range(points))
        random.Random(f"scalebench/{seed}/{repetition}").shuffle(order)
        if order == previous and points > 1:
            order = order[1:] + order[:1]
        previous = order
        yield order
