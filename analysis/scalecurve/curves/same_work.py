"""Whether a point did the work of its baseline: a curve compares times, and these are of equal work or of none.

Each comparison is of what the workers of both counts recorded, over all windows and repetitions: only values that lie
apart are different. Inputs that never vary agree to ``EXACT``; what varies, as batches that are padded do, to
``UNEVEN`` and as much as the values of either count themselves lie apart. With a smaller batch per worker what is fixed
in a step (a product of weights, a mask) is more a sample, at most by as much as the batch is smaller.

Built-in programs do the same by construction, and layouts of parallelism divide it by design: neither is compared.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from scalecurve.bundle.measurement import MeasuredPoint
from scalecurve.render import formatting
from scalecurve_api.programs.custom import WorkVariation
from scalecurve_api.record.checks.training import LEAST_FILLED, UNTIMED_SHARE
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from scalecurve_api.spec.trial import InvalidReason
from scalecurve_api.text import count, few

EXACT = 0.01
"""Of values that do not vary: counts of the same work are equal, but for what a step has beside its samples"""
UNEVEN = 1 / LEAST_FILLED - 1
"""As batches of one size may differ at the end of an epoch"""
UNSEEN = 1.0
"""Of FLOPs that were counted in one step (older workers): their variation is not known. Padding a batch to its longest
sample changes them less than this; another model, or a third of the samples, more."""


class OtherWork(NamedTuple):
    """A difference from the baseline that keeps a point from counting, with its numbers."""

    reason: InvalidReason
    detail: str


_DECLARED: dict[str, set[InvalidReason]] = {
    WorkVariation.pruning: {InvalidReason.different_parameters, InvalidReason.different_flops},
    WorkVariation.curriculum: {InvalidReason.different_inputs, InvalidReason.different_flops},
    WorkVariation.token_batches: {InvalidReason.different_inputs, InvalidReason.different_flops},
}
"""What each declared variation of the work explains"""


class Extent(NamedTuple):
    """Least and most of what was recorded of one count."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high / self.low - 1


def other_work(measured: MeasuredPoint, base: MeasuredPoint | None) -> tuple[OtherWork, ...]:
    """What differs between the work of a point and of its baseline; nothing where either did not record it."""
    if base is None or measured is base or not measured.timed:
        return ()
    if not all(map(_is_comparable, (*measured.timed, *base.timed))):
        return ()
    return tuple(found for compare in _COMPARISONS for found in compare(measured, base))


def declared(measured: MeasuredPoint, other: OtherWork) -> bool:
    """Whether the experiment declares that this varies on purpose."""
    workloads = [record.trial.workload for record in measured.timed]
    return bool(workloads) and all(
        any(other.reason in _DECLARED[why] for why in workload.variation_reasons) for workload in workloads
    )


def _is_comparable(record: TrialRecord) -> bool:
    workload = record.trial.workload
    return not (record.imported or workload.built_in or workload.reported or record.trial.point.parallelism)


def _parameters(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """Exactly as many elements of parameters are trained."""
    now, before = ({r.trained_parameters for r in each.timed} - {None} for each in (measured, base))
    if now and before and not now & before:
        detail = f"{_spell_counts(now)} parameters are trained, {_spell_counts(before)}"
        yield OtherWork(InvalidReason.different_parameters, detail + _spell_place(base))


def _arithmetic(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """Most FLOPs are of operands of the same type, as the operations themselves had them."""
    now, before = ({str(r.options.get("precision", "mixed")) for r in each.timed} for each in (measured, base))
    if not now & before and "mixed" not in now | before:
        detail = f"arithmetic in {few(sorted(now))}, in {few(sorted(before))}"
        yield OtherWork(InvalidReason.different_arithmetic, detail + _spell_place(base))


def _flops(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """FLOPs of a sample in forward and backward passes, in a few steps before the warm-up.

    These are few, so where the inputs vary, or nobody saw whether they do, only ``UNSEEN`` is told from chance.
    """
    if {r.options.get("flops") for r in measured.timed} != {r.options.get("flops") for r in base.timed}:
        return  # counted in another way, or without other operations
    known = all(r.flops_spread for r in (*measured.timed, *base.timed))
    now, before = (_extent(v for r in each.timed for v in _flops_of(r, known)) for each in (measured, base))
    inputs = [_inputs_of(each) for each in (measured, base)]
    steady = known and all(extent is not None and not extent.width for extent in inputs)
    tolerance = UNEVEN + now.width + before.width if now and before and steady else UNSEEN
    if now and before and _apart(now, before, measured, base, tolerance):
        detail = f"{_value(now)} FLOPs a sample, {_value(before)}"
        yield OtherWork(InvalidReason.different_flops, detail + _spell_place(base))


def _flops_of(record: TrialRecord, of_several: bool) -> list[float]:
    return record.flops_spread if of_several else [record.flops_per_sample or 0.0]


def _inputs(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """Elements of the model's inputs for each sample that was counted, by window: fewer samples or shorter ones."""
    now, before = _inputs_of(measured), _inputs_of(base)
    if now is None or before is None:
        return
    constant = not (now.width or before.width) and measured.point.batch_per_worker == base.point.batch_per_worker
    if _apart(now, before, measured, base, EXACT if constant else UNEVEN + now.width + before.width):
        detail = f"the model reads {_value(now)} elements for each sample that is counted, {_value(before)}"
        yield OtherWork(InvalidReason.different_inputs, detail + _spell_place(base))


def _passes(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """No step without a backward pass where the baseline has one in each; how many micro-batches it has is free.

    A window cuts a sequence of steps anywhere, so its count may be one less than another's.
    """
    now, before = (_ratio_extent(each, lambda w: w.backwards, lambda w: w.steps) for each in (measured, base))
    if not now or not before or before.low < 1:
        return
    cut = 1 / min(w.steps for r in measured.timed for w in _windows(r))
    if now.high < 1 - cut:
        detail = f"{_value(now)} backward passes a step, {_value(before)}"
        yield OtherWork(InvalidReason.fewer_passes, detail + _spell_place(base))


def _pauses(measured: MeasuredPoint, base: MeasuredPoint) -> Iterator[OtherWork]:
    """Evaluations between steps are in no window, so there are no more of them than the baseline's schedule has.

    One that goes by epochs has them at every so many samples, and each window may cut off one. Less than
    ``UNTIMED_SHARE`` of the time is not looked at.
    """
    now, before = ([w for r in each.timed for w in _windows(r)] for each in (measured, base))
    if any(w.pauses is None for w in (*now, *before)):
        return
    paused, timed = (sum(each or 0 for each in of) for of in ([w.paused_ns for w in now], [w.wall_ns for w in now]))
    rate = sum(w.pauses or 0 for w in now) / sum(w.steps for w in now)
    by_epochs = max(1.0, (measured.point.global_batch or 1) / (base.point.global_batch or 1))
    expected = rate / by_epochs * sum(w.steps for w in before)
    seen = sum(w.pauses or 0 for w in before)
    if expected > seen + len(before) and paused > UNTIMED_SHARE * (paused + timed):
        share = formatting.percent(paused / (paused + timed), 0)
        detail = f"{share} of the time is evaluation in no window, {count(seen, 'time')}"
        yield OtherWork(InvalidReason.different_pauses, detail + _spell_place(base))


_COMPARISONS: tuple[Callable[[MeasuredPoint, MeasuredPoint], Iterator[OtherWork]], ...] = (
    _parameters,
    _arithmetic,
    _flops,
    _inputs,
    _passes,
    _pauses,
)


def _inputs_of(measured: MeasuredPoint) -> Extent | None:
    return _ratio_extent(measured, lambda w: w.inputs, _samples)


def _apart(now: Extent, before: Extent, measured: MeasuredPoint, base: MeasuredPoint, tolerance: float) -> bool:
    """Whether all of one count lies beyond all of the other; what is fixed in a step may be more a sample."""
    batches = [each.point.batch_per_worker for each in (base, measured)]
    smaller = max(1.0, batches[0] / batches[1]) if batches[0] and batches[1] else 1.0
    return now.low > before.high * (1 + tolerance) * smaller or now.high * (1 + tolerance) < before.low


def _ratio_extent(
    measured: MeasuredPoint, top: Callable[[TrialWindow], int | None], bottom: Callable[[TrialWindow], int]
) -> Extent | None:
    windows = [window for record in measured.timed for window in _windows(record)]
    if any(top(window) is None for window in windows):
        return None
    return _extent((top(window) or 0) / max(1, bottom(window)) for window in windows)


def _extent(values: Iterator[float]) -> Extent | None:
    held = list(values)
    return Extent(min(held), max(held)) if held and min(held) > 0 else None


def _windows(record: TrialRecord) -> list[TrialWindow]:
    return [window for window in record.windows if window.kind is WindowKind.train and window.steps > 0]


def _samples(window: TrialWindow) -> int:
    return window.samples if window.sequences is None else window.sequences


def _value(extent: Extent) -> str:
    low, high = (formatting.number(each) for each in extent)
    return low if low == high else f"{low} to {high}"


def _spell_counts(values: set[int | None]) -> str:
    return few(f"{value:,}" for value in sorted(value for value in values if value is not None))


def _spell_place(base: MeasuredPoint) -> str:
    return f" at {count(base.point.workers, 'worker')}"
