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
from scalecurve.curves.results import ScalingResult
from scalecurve.hardware.devices import device_name
from scalecurve.hardware.names import folded
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.intervals import throughput
from scalecurve_api.text import count
from scalecurve_corpus.schema import SAMPLES, TOKENS, Corpus, PublishedPoint

BATCH_FACTOR = 2.0
_MODELS = {"resnet": "resnet50", "ssd": "retinanet", "gnn": "rgat"}
"""What one round of MLPerf calls a model, and another or this product something else."""
_PRECISIONS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float8": "fp8",
    "float4": "fp4",
}


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
        Comparable(point, median(point.rates) / point.workers, _list_differences(measured, point))
        for point in corpus.points
        if point.unit in measured.per_device and point.rates and not _apart(measured, point)
    ]
    return tuple(sorted(found, key=lambda each: (-each.per_device, each.point.submitter, each.point.system)))


def nearest(measured: OwnPoint, corpus: Corpus, most: int = 3) -> tuple[Comparable, ...]:
    """Find the published points that come nearest to one that has too few beside it.

    Args:
        measured: The point.
        corpus: Published points.
        most: How many.

    Returns:
        Those of the same model if there are any, one a submitter, nearest first, with all that differs.
    """
    proved = [point for point in corpus.points if point.rates and point.unit in measured.per_device]
    alike = [point for point in proved if _same_model(measured.model, point.benchmark)] or proved
    by_submitter: dict[str, PublishedPoint] = {}
    for point in sorted(alike, key=lambda point: (_distance(measured, point), len(_apart(measured, point)))):
        by_submitter.setdefault(point.submitter, point)
    return tuple(
        Comparable(point, median(point.rates) / point.workers, _all_that_differs(measured, point))
        for point in list(by_submitter.values())[:most]
    )


def _all_that_differs(measured: OwnPoint, point: PublishedPoint) -> tuple[str, ...]:
    apart = _apart(measured, point)
    said = {word for words in apart for word in words.split()}
    return (
        *apart,
        *(each for each in _list_differences(measured, point) if not (said & {"batch", "devices"} & set(each.split()))),
    )


@cache
def corpus_name(model: str) -> str:
    """Name a model as the corpus compares it: without case and punctuation, and alike in every round.

    Args:
        model: What a benchmark or an experiment calls it.

    Returns:
        The name; two that are equal are of one model.
    """
    return _MODELS.get(folded(model), folded(model))


def same_precision(first: str | None, second: str | None) -> bool:
    """Tell whether two precisions are of one kind: bf16, fp16, tf32, fp32, fp8; one that is not stated is of any.

    Args:
        first: As an experiment or a page states it.
        second: The other.

    Returns:
        Whether they are, by either's usual names.
    """
    if not first or not second:
        return True
    one, other = (folded(name).removeprefix("amp") for name in (first, second))
    return _PRECISIONS.get(one, one) == _PRECISIONS.get(other, other)


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
        record.precision,
        point.global_batch / point.workers if point.global_batch else None, rates,
        record.parameters, workload.tokens_per_sample if unit == "tokens" else None, mfu,
    )  # fmt: skip


def _apart(measured: OwnPoint, point: PublishedPoint) -> list[str]:
    """What makes a published point another thing; empty for a comparable one."""
    apart = []
    if not _same_model(measured.model, point.benchmark):
        apart.append(f"yours is {measured.model}" if measured.model else "your model is not stated")
    if measured.device != point.device:
        apart.append(f"your device is {measured.device}")
    if measured.workers != point.workers and not (measured.nodes == point.nodes == 1):
        apart.append(f"yours has {count(measured.workers, 'device')} on {count(measured.nodes, 'node')}")
    if not same_precision(measured.precision, point.precision):
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


def _list_differences(measured: OwnPoint, point: PublishedPoint) -> tuple[str, ...]:
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
    device = 0 if measured.device == point.device else 1 if measured.device[:1] == point.device[:1] else 2  # H100, H200
    return model + device + abs(measured.workers - point.workers) / point.workers


def _same_model(first: str, second: str) -> bool:
    return bool(first) and corpus_name(first) == corpus_name(second)
