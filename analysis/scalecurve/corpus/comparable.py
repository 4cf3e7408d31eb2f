"""Which published points a measured one can be set beside, and what differs where none can.

Comparable is the same device and model in a precision that is not stated to be another, on as many devices or as part
of one node on both sides, with a batch per device within a factor of two. Rates are compared per device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from scalecurve.bundle.measurement import MeasuredPoint, MeasuredSeries
from scalecurve.corpus.device_names import device_name
from scalecurve.corpus.schema import SAMPLES, TOKENS, Corpus, PublishedPoint
from scalecurve.curves.results import ScalingResult
from scalecurve.hardware.names import folded
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve_api.programs.mesh_rules import sequence_length
from scalecurve_api.programs.training import TrainingWorkload
from scalecurve_api.programs.workload import Workload
from scalecurve_api.text import count

BATCH_FACTOR = 2.0
_MODELS = {"resnet": "resnet50", "ssd": "retinanet", "gnn": "rgat"}
"""What one round of MLPerf calls a model, and another or this product something else."""


@dataclass(frozen=True)
class OwnPoint:
    """A measured point as the published ones are known: per device, by unit."""

    bundle: str
    series: str
    workers: int
    nodes: int
    device: str
    model: str
    precision: str | None
    batch_per_device: float | None
    per_device: Mapping[str, Estimate]
    parameters: float | None = None
    sequence_length: float | None = None
    mfu: Estimate | None = None

    @property
    def named(self) -> str:
        """What it is, in a few words."""
        model = self.model or "no model stated"
        return f"{model} on {self.workers} {self.device}"


@dataclass(frozen=True)
class Comparable:
    """A published point, its rate per device (the median of its runs), and what differs from one's own."""

    point: PublishedPoint
    per_device: float
    differs: tuple[str, ...]


def own_points(
    result: ScalingResult, measured: Sequence[MeasuredSeries], model: str = "", include_unproved: bool = False
) -> tuple[OwnPoint, ...]:
    """Describe the measured points of bundles as published ones are described.

    Args:
        result: The curves of the bundles.
        measured: The same series with their records.
        model: The model that was trained, where the experiment does not state it or calls it otherwise.
        include_unproved: Also take points that do not count.

    Returns:
        One for every point with a throughput on devices of one kind.
    """
    records = {(series.bundle, series.name, p.point.name): p for series in measured for p in series.points}
    points = []
    for series in result.series:
        for shown in series.measured:
            found = records.get((series.bundle, series.name, shown.point.name))
            if found is not None and (include_unproved or not shown.doubts):
                own = _own(series.bundle, series.name, series.sample_unit, found, model, shown.mfu)
                points += [own] if own is not None else []
    return tuple(points)


def comparable(measured: OwnPoint, corpus: Corpus) -> tuple[Comparable, ...]:
    """Find the published points that a measured one can be set beside.

    Args:
        measured: The point.
        corpus: Published points.

    Returns:
        Those that are comparable, fastest per device first.
    """
    found = [
        Comparable(point, median(point.rates) / point.workers, _differing(measured, point))
        for point in corpus.points
        if point.unit in measured.per_device and point.rates and not _apart(measured, point)
    ]
    return tuple(sorted(found, key=lambda each: (-each.per_device, each.point.submitter, each.point.system)))


def nearest(measured: OwnPoint, corpus: Corpus) -> str:
    """Say which published points come nearest to one that has too few beside it.

    Args:
        measured: The point.
        corpus: Published points.

    Returns:
        One line: how many points of which model, device and size, and why they do not count.
    """
    proved = [point for point in corpus.points if point.rates and point.unit is not None]
    if not proved:
        return "the corpus has no point with a proved unit"
    best = min(proved, key=lambda point: (len(_apart(measured, point)), _distance(measured, point)))
    alike = [p for p in proved if _same_model(best.benchmark, p.benchmark) and p.device == best.device]
    alike = [point for point in alike if point.workers == best.workers]
    submitters = {point.submitter for point in alike}
    why = ", ".join(_apart(measured, best)) or "too few of them"
    return (
        f"nearest: {count(len(alike), 'point')} of {best.benchmark} on {best.workers} {best.device} "
        f"from {count(len(submitters), 'submitter')} ({why})"
    )


@cache
def published_name(model: str) -> str:
    """Name a model as the corpus compares it: without case and punctuation, and alike in every round.

    Args:
        model: What a benchmark or an experiment calls it.

    Returns:
        The name; two that are equal are of one model.
    """
    return _MODELS.get(folded(model), folded(model))


def _own(
    bundle: str, series: str, unit: str, measured: MeasuredPoint, model: str, mfu: Estimate | None
) -> OwnPoint | None:
    record = measured.timed[0] if measured.timed else None
    devices = {device_name(rank.device_name) for each in measured.timed for rank in each.topology}
    if record is None or len(devices) != 1:
        return None
    point, workload = measured.point, record.trial.workload
    share = 1 / point.workers
    rates = {TOKENS if unit == "tokens" else SAMPLES: throughput(measured.samples).scaled(share)}
    if measured.sequences:
        rates[SAMPLES] = throughput(measured.sequences).scaled(share)
    return OwnPoint(
        bundle, series, point.workers, point.nodes, devices.pop(), model or str(workload.model or ""),
        str(workload.precision) if workload.precision else None,
        point.global_batch / point.workers if point.global_batch else None, rates,
        record.parameters, tokens_in_sequence(workload) if unit == "tokens" else None, mfu,
    )  # fmt: skip


def tokens_in_sequence(workload: Workload) -> int | None:
    """Tokens of one sequence of a built-in language model; None of a program of the user's."""
    return sequence_length(workload) if isinstance(workload, TrainingWorkload) else None


def _apart(measured: OwnPoint, point: PublishedPoint) -> list[str]:
    """What makes a published point another thing; empty for a comparable one."""
    apart = []
    if not _same_model(measured.model, point.benchmark):
        apart.append(f"yours is {measured.model}" if measured.model else "your model is not stated")
    if measured.device != point.device:
        apart.append(f"your device is {measured.device}")
    if measured.workers != point.workers and not (measured.nodes == point.nodes == 1):
        apart.append(f"yours has {count(measured.workers, 'device')} on {count(measured.nodes, 'node')}")
    if measured.precision and point.precision and folded(measured.precision) != folded(point.precision):
        apart.append(f"your precision is {measured.precision}")
    mine, theirs = measured.batch_per_device, point.batch_per_device
    if (
        _same_model(measured.model, point.benchmark)
        and mine
        and theirs
        and not 1 / BATCH_FACTOR <= mine / theirs <= BATCH_FACTOR
    ):
        apart.append(f"your batch per device is {mine:g}, theirs {theirs:g}")
    return apart


def _differing(measured: OwnPoint, point: PublishedPoint) -> tuple[str, ...]:
    """What differs although it is comparable."""
    differs = []
    if measured.workers != point.workers:
        differs.append(f"{count(point.workers, 'device')} in the node, not {measured.workers}")
    mine, theirs = measured.batch_per_device, point.batch_per_device
    if not mine or not theirs:
        differs.append("batch not stated")
    elif mine != theirs:
        differs.append(f"batch {theirs:g} per device, not {mine:g}")
    if not point.precision:
        differs.append("precision not stated")
    if point.is_unsteady:
        differs.append(f"unsteady: a run {100 * (point.farthest or 0):.1f} % off")
    return tuple(differs)


def _distance(measured: OwnPoint, point: PublishedPoint) -> float:
    """Of points that miss as many conditions: the model counts most, then its size, the device, and the devices."""
    sizes = (measured.parameters or 0, point.parameters or 0)
    alike = min(sizes) > 0 and max(sizes) <= BATCH_FACTOR * min(sizes)
    model = 0 if _same_model(measured.model, point.benchmark) else 3 if alike else 4
    return model + (0 if measured.device == point.device else 2) + abs(measured.workers - point.workers) / point.workers


def _same_model(first: str, second: str) -> bool:
    return bool(first) and published_name(first) == published_name(second)
