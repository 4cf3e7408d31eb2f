"""Spec -> ordered trials: pure, deterministic, seeded; counting never expands.

Within a repetition the points are shuffled, and repetitions follow one another, so a slow drift of the machine
falls on every point alike and is not aliased into the worker count (blocked repetitions do just that).
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import overload

from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError, resolve
from scalecurve_api.planning.combinations import Rule, count, distinct, expand, narrowed
from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import LADDER_AXIS, AxisValue, ExperimentSpec, ScalingExperiment
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.scaling import Batch, Mode
from scalecurve_api.spec.trial import Point, TrialSpec
from scalecurve_api.text import spell_value

MAX_TRIALS = 10_000
_MAX_NAME = 44
_DIGEST = 10
_SHARED_WORKLOADS = 1024
_LAYOUT = "parallelism."
_PARAMETERS = "parameters."  # whose names are the user's own


class Trials(Sequence[TrialSpec]):
    """The trials of a plan, in order; each is built when it is accessed, so 10,000 of them take little memory.

    A slice is again such a sequence. Trials of one point share it, and trials with the same axes share their workload
    (of the last 1,024 combinations).
    """

    def __init__(self, experiment: str, spec: ExperimentSpec, points: Sequence[Point], order: Sequence[int]) -> None:
        """``order`` holds the index of each trial's point, one repetition after another, session by session."""
        self._experiment, self.spec, self._points, self._order = experiment, spec, points, order
        self._positions = range(len(order))
        self._workload = lru_cache(_SHARED_WORKLOADS)(lambda axes: workload_at(spec, json.loads(axes)))
        self._timing = spec.measure.timing()

    @overload
    def __getitem__(self, index: int) -> TrialSpec: ...
    @overload
    def __getitem__(self, index: slice) -> Trials: ...
    def __getitem__(self, index: int | slice) -> TrialSpec | Trials:
        if isinstance(index, slice):
            part = copy(self)
            part._positions = self._positions[index]
            return part
        return self._build(self._positions[index])

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(self._name, self._positions))

    def point(self, index: int) -> Point:
        return self._points[self._order[self._positions[index]]]

    def workload(self, point: Point) -> Workload:
        return self._workload(json.dumps(point.axes))

    def _name(self, position: int) -> str:
        repetition, session = self._repetition(position)
        where = f"-s{session + 1}" if session else ""
        return f"{self._points[self._order[position]].name}{where}-r{repetition + 1}"

    def _repetition(self, position: int) -> tuple[int, int]:
        """Numbers of the repetition and of its session."""
        repetition = position // len(self._points)
        return repetition, repetition // self.spec.measure.most_repetitions

    def _build(self, position: int) -> TrialSpec:
        spec, point = self.spec, self._points[self._order[position]]
        repetition, session = self._repetition(position)
        return TrialSpec(
            experiment=self._experiment,
            name=self._name(position),
            point=point,
            repetition=repetition,
            session=session,
            seed=(spec.measure.seed * 1_000_003 + repetition) % (1 << 31),
            workload=self.workload(point),
            measure=_measure_at(self._timing, point),
            cost=spec.cost,
            runner=spec.runner,
            resources=spec.resources,
            expect=spec.expect,
            deadline_seconds=spec.deadline_seconds,
        )


def _measure_at(measure: Measure, point: Point) -> Measure:
    """Steps of a point where windows are epochs; a last batch that is not full is no step."""
    if measure.epoch_samples is None or point.global_batch is None:
        return measure
    steps = max(1, measure.epoch_samples // point.global_batch)
    return measure.model_copy(update={"warmup_steps": steps, "max_warmup_steps": steps, "steps_per_window": steps})


@dataclass(frozen=True)
class Plan:
    """The ordered trials of one experiment, and their points by first appearance in the spec."""

    experiment: str
    points: tuple[Point, ...]
    trials: Trials

    @property
    def spec(self) -> ExperimentSpec:
        return self.trials.spec

    @property
    def workloads(self) -> list[Workload]:
        """Each workload of the points once; AxisError when values that fit alone do not fit together."""
        by_axes = {json.dumps(point.axes): point for point in self.points}
        return [self.trials.workload(point) for point in by_axes.values()]

    @cached_property
    def baselines(self) -> dict[str, int]:
        """Series -> the worker count that its speed-up is relative to."""
        workers: dict[str, set[int]] = defaultdict(set)
        for point in self.points:
            workers[point.series].add(point.workers)
        return {series: baseline_of(self.spec, sorted(counts)) for series, counts in workers.items()}

    def replace_runner(self, runner: Runner) -> Plan:
        """Return the same plan for jobs of another kind."""
        trials = copy(self.trials)
        trials.spec = self.spec.model_copy(update={"runner": runner})
        return replace(self, trials=trials)


def layouts_of(spec: ExperimentSpec, workers: int) -> list[tuple[int, int]]:
    """The ``(nodes, workers on each node)`` that give ``workers``; empty where the placement gives no such count."""
    if spec.placement.layouts:
        pairs = [tuple(map(int, layout.split("x"))) for layout in spec.placement.layouts]
        return [(nodes, per_node) for nodes, per_node in pairs if nodes * per_node == workers]
    per_node = min(workers, spec.placement.workers_per_node or workers)
    return [(workers // per_node, per_node)] if workers % per_node == 0 else []


def count_trials(spec: ExperimentSpec, limit: int | None = None) -> int:
    """Most trials of one session of the spec, without excluded combinations; axes are never multiplied out.

    With ``limit`` the count stops as soon as it is exceeded; the result is then only known to be larger.

    Raises:
        EntangledRulesError: when the exclusions cannot be counted in reasonable time.
    """
    axes = {name: distinct(values) for name, values in spec.axes.items()}
    rules = _rules(spec)
    bound = None if limit is None else limit // spec.measure.most_repetitions
    points = 0
    for base in _base_points(spec):
        points += count(axes, narrowed(rules, base), bound)
        if bound is not None and points > bound:
            break
    return points * spec.measure.most_repetitions


def expand_points(spec: ExperimentSpec) -> Iterator[Point]:
    """Every point that is not excluded, in the order of the spec."""
    axes = {name: distinct(values) for name, values in spec.axes.items()}
    rules = _rules(spec)
    # Where a count has several layouts each number of nodes makes a curve of its own; where it has one, that is it.
    by_nodes = any(len(set(layouts_of(spec, workers))) > 1 for workers in spec.scaling.workers)
    for base in _base_points(spec):
        nodes, per_node = map(int, str(base["layout"]).split("x"))
        for combination in expand(axes, narrowed(rules, base)):
            yield _point(spec, Mode(str(base["mode"])), nodes, per_node, combination, by_nodes)


def sessions_in(names: Iterable[str], points: Sequence[Point]) -> int:
    """Number of sessions that trials with these names come from; at least one.

    Names may be anything: only those of ``points`` count, and no session without the one before it.
    """
    known = {point.name for point in points}
    matches = (re.fullmatch(r"(.+)-s([1-9]\d{0,3})-r\d+", name) for name in names)
    begun = {int(match[2]) for match in matches if match and match[1] in known}
    return next(number for number in range(1, len(begun) + 2) if number + 1 not in begun)


def make_plan(experiment: ScalingExperiment, sessions: int = 1) -> Plan:
    """The ordered trials; every session repeats all points in an order of its own.

    Raises:
        AxisError: when a matrix value does not fit its field (``rules.check`` reports all of them).
    """
    spec = experiment.spec
    points = tuple(expand_points(spec))
    _check_axes(spec, points)
    order = array("I")
    for repetition in _orders(len(points), spec.measure.most_repetitions * sessions, spec.measure.seed):
        # Batches of a ladder rise until its end is known; later repetitions are shuffled as all others are.
        order.extend(repetition if order else _sort_ladders(repetition, points))
    name = experiment.metadata.name
    return Plan(name, points, Trials(name, spec, points, order))


def workload_at(spec: ExperimentSpec, axes: Mapping[str, AxisValue]) -> Workload:
    """The workload with the values of these axes; AxisError for the first that its field does not take."""
    return resolve(spec.workload, spec.scaling.batch, axes)[0]


def baseline_of(spec: ExperimentSpec, workers: Sequence[int]) -> int:
    """The worker count that speed-up of a series with these counts is relative to."""
    named = spec.scaling.baseline
    return min(workers) if named == "auto" or named not in workers else named


def _check_axes(spec: ExperimentSpec, points: Sequence[Point]) -> None:
    """Raise AxisError for a value that does not fit; fields are independent, so each value is tried alone, once.

    The first point is tried with all its axes: the number of variables is the same at every point.
    """
    tried: set[tuple[str, str]] = set()
    for point in points:
        for name, value in point.axes.items():
            program = {"program": point.axes["program"]} if "program" in point.axes else {}
            if (key := (name, canonical_json([value, program]))) not in tried:
                tried.add(key)
                workload_at(spec, {**program, name: value})
    if points:
        workload_at(spec, points[0].axes)


def _base_points(spec: ExperimentSpec) -> Iterator[dict[str, AxisValue]]:
    for mode in dict.fromkeys(spec.scaling.modes):
        for workers in dict.fromkeys(spec.scaling.workers):
            for nodes, per_node in dict.fromkeys(layouts_of(spec, workers)):
                yield {"mode": mode.value, "workers": workers, "layout": f"{nodes}x{per_node}"}


def _rules(spec: ExperimentSpec) -> list[Rule]:
    """The exclusions that can ever match: an empty one, or one over an unknown axis, excludes nothing."""
    known = {"mode", "workers", "layout", *spec.axes}
    return [rule for rule in spec.exclude if rule and rule.keys() <= known]


def _point(
    spec: ExperimentSpec, mode: Mode, nodes: int, per_node: int, axes: dict[str, AxisValue], by_nodes: bool
) -> Point:
    workers = nodes * per_node
    changed = {name.removeprefix("batch."): value for name, value in axes.items() if name.startswith("batch.")}
    batch = Batch.model_validate({**spec.scaling.batch.wire(), **changed}) if changed else spec.scaling.batch
    total, per_worker = None, None
    if mode is Mode.strong and batch.global_ is not None:
        total, per_worker = batch.global_, batch.global_ // workers
    if mode is Mode.weak and batch.per_worker is not None:
        total, per_worker = batch.per_worker * workers, batch.per_worker
    layout = degrees_at(spec, axes, workers, per_node, total)
    if layout is not None and total is not None and total % workers:
        per_worker = None  # a data-parallel group has samples, and no worker of it a whole number of its own
    parts = [mode.value, *([f"nodes={nodes}"] if by_nodes else [])]
    parts += [f"{name.removeprefix(_PARAMETERS)}={_series_value(value)}" for name, value in axes.items()]
    return Point(
        mode=mode,
        workers=workers,
        nodes=nodes,
        workers_per_node=per_node,
        global_batch=total,
        batch_per_worker=per_worker,
        axes=axes,
        parallelism=layout,
        rung=_rung(spec, axes),
        series=" ".join(parts),
        name=_point_name(mode, nodes, per_node, axes),
    )


def _rung(spec: ExperimentSpec, axes: Mapping[str, AxisValue]) -> int | None:
    ladder = spec.scaling.batch.ladder
    return None if ladder is None else [*ladder.batches].index(int(axes[LADDER_AXIS]))


def degrees_at(
    spec: ExperimentSpec, axes: Mapping[str, AxisValue], workers: int, per_node: int, batch: int | None
) -> Degrees | None:
    """The degrees of parallelism of a point; None where its workload has no layout, or one that cannot be."""
    named = "program" in axes or any(name.startswith(_LAYOUT) for name in axes)
    strategy = spec.workload.strategy_named(axes.get("strategy"))
    if spec.workload.layout is None and not named and not (strategy is not None and strategy.lays_out):
        return None
    try:
        layout = workload_at(spec, axes).layout
    except AxisError:
        return None
    return layout.degrees(workers, per_node, batch) if layout is not None else None


def _series_value(value: AxisValue) -> str:
    """The value as in YAML, in quotes where it could be read as more than one axis."""
    text = spell_value(value)
    return json.dumps(text) if re.search(r'[\s="]', text) or not text.isprintable() else text


def _point_name(mode: Mode, nodes: int, per_node: int, axes: Mapping[str, AxisValue]) -> str:
    """A DNS label, readable where it can be; the digest (40 bits for 10,000 points) keeps it unique where not."""
    head = f"{mode.value}-{nodes * per_node}-{nodes}x{per_node}"
    if not axes:
        return head
    spelled = [re.sub(r"[^a-z0-9]+", "-", spell_value(value).lower()).strip("-") or "0" for value in axes.values()]
    typed = [[name, spell_value(value), type(value).__name__] for name, value in axes.items()]
    digest = hashlib.sha256(canonical_json(typed).encode()).hexdigest()[:_DIGEST]
    readable = "-".join([head, *spelled])[: _MAX_NAME - _DIGEST - 1].rstrip("-")
    return f"{readable}-{digest}"


def _orders(points: int, repetitions: int, seed: int) -> Iterator[list[int]]:
    previous: list[int] = []
    for repetition in range(repetitions):
        order = list(range(points))
        random.Random(f"order/{seed}/{repetition}").shuffle(order)
        if order == previous and points > 1:
            order = order[1:] + order[:1]
        previous = order
        yield order


def _sort_ladders(order: Sequence[int], points: Sequence[Point]) -> list[int]:
    """The order of points, by their index, with each ladder's batches rising over the places it has."""
    places: dict[str, list[int]] = {}
    for place, index in enumerate(order):
        if (ladder := points[index].ladder) is not None:
            places.setdefault(ladder, []).append(place)
    rising = list(order)
    for taken in places.values():
        indices = sorted((order[place] for place in taken), key=lambda index: points[index].rung or 0)
        for place, index in zip(taken, indices, strict=True):
            rising[place] = index
    return rising
