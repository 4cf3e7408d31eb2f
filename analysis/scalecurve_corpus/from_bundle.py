"""The measured points of a bundle as those of a corpus: one's own machines as the yardstick of the next ones."""

from __future__ import annotations

from scalecurve.bundle.measurement import MeasuredPoint, measure
from scalecurve.bundle.open import Bundle
from scalecurve.curves.compute import believable, scaling
from scalecurve.hardware.devices import device_name
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_corpus.comparable import OwnPoint, own_points
from scalecurve_corpus.schema import SAMPLES, TOKENS, Corpus, CorpusError, PublishedPoint, PublishedRun, PublishedSource


def corpus_of(bundle: Bundle, submitter: str, day: str) -> Corpus:
    """Make a corpus of what a bundle measured; points that do not count stay out.

    Args:
        bundle: An experiment whose trials state their model and ran on devices of one kind a point.
        submitter: Whose machines these are; the name of the source, too.
        day: When it was measured, as 2026-11-26.

    Returns:
        A point for each measured one, with a run for each repetition.

    Raises:
        CorpusError: nothing was measured, or a point states no model.
    """
    counted = believable(bundle)
    every = measure(counted)
    known = {(own.series, own.workers, own.nodes): own for own in own_points(scaling([counted]), every)}
    points = [
        _point(
            each,
            series.sample_unit,
            submitter,
            bundle.label,
            known.get((series.name, each.point.workers, each.point.nodes)),
        )
        for series in every
        for each in series.points
        if each.timed
    ]
    if not points:
        raise CorpusError(f"{bundle.path}: no point counts, so there is nothing to add")
    source = PublishedSource(f"{submitter}/{bundle.label}", f"Measured by {submitter}: {bundle.label}", "", "own", day)
    return Corpus((source,), tuple(points))


def _point(measured: MeasuredPoint, unit: str, submitter: str, name: str, own_point: OwnPoint | None) -> PublishedPoint:
    record, point = measured.timed[0], measured.point
    devices = {device_name(rank.device_name) for each in measured.timed for rank in each.topology}
    if len(devices) != 1 or not record.trial.workload.model:
        kinds = ", ".join(sorted(devices)) or "none"
        raise CorpusError(
            f"{name}, {point.name}: model {record.trial.workload.model or 'not stated'}, devices {kinds}; "
            "expected a model and devices of one kind"
        )
    rates = [totals.total_samples / totals.total_wall_s for totals in measured.samples]
    return PublishedPoint(
        source=f"{submitter}/{name}",
        submitter=submitter,
        system=f"{name}, {point.series}" if point.series else name,
        benchmark=str(record.trial.workload.model),
        device=devices.pop(),
        nodes=point.nodes,
        devices_per_node=point.workers_per_node,
        workers=point.workers,
        global_batch=point.global_batch,
        precision=record.precision,
        software=_software(record),
        interconnect="",
        unit=TOKENS if unit == "tokens" else SAMPLES,
        reason="",
        basis="ScaleCurve's timed windows",
        runs=tuple(PublishedRun(_start_time(one), None, rate) for one, rate in zip(measured.timed, rates, strict=True)),
        parameters=record.parameters,
        sequence_length=int(own_point.sequence_length) if own_point and own_point.sequence_length else None,
        mfu=own_point.mfu.value if own_point and own_point.mfu else None,
    )


def _start_time(record: TrialRecord) -> float | None:
    times = [step.at_ns for step in record.timeline if step.at_ns > 0]
    return min(times) / 1e9 if times else None


def _software(record: TrialRecord) -> str:
    versions = record.versions
    return ", ".join(f"{name} {versions[name]}" for name in ("torch", "tensorflow", "nccl") if versions.get(name))
