"""The steps of one run, one after another -> stretches of them, without those at the beginning."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from scalecurve.render import formatting
from scalecurve_api.text import count, few
from scalecurve_importing.reading import Reading, Stretch
from scalecurve_importing.run_lines import RunLines, StepLine

WARMUP = 5
"""Intervals dropped at the beginning of a run, as CloudAI does by default: steps, where each has its line."""
_MOST = 10
_SLOW = 3.0  # times the median: more than noise


def readings_of(reading: Reading, runs: Sequence[RunLines], notes: Sequence[str] = ()) -> list[Reading]:
    """Build a reading for every run that is longer than its warm-up, like ``reading`` but for its numbers."""
    if len(runs) > 1:
        back = few([run.entries[0].place for run in runs[1:]], 3)
        notes = (*notes, f"{len(runs)} runs (the step goes back in line {back})")
    long = max(runs, key=lambda run: len(run.entries))
    kept = [run for run in runs if len(run.entries) > WARMUP or run is long]
    if short := len(runs) - len(kept):
        notes = (*notes, f"{count(short, 'run')} of {WARMUP} lines or fewer skipped")
    readings = []
    for run in kept:
        parts, own = _summarize_run(run, reading)
        first, last = run.entries[0].place, run.entries[-1].place
        place = f"{reading.place}, lines {first} to {last}" if len(runs) > 1 else reading.place
        readings.append(replace(reading, place=place, stretches=parts, notes=(*reading.notes, *notes, *own)))
    return readings


def _summarize_run(run: RunLines, reading: Reading) -> tuple[tuple[Stretch, ...], list[str]]:
    usual = median([entry.rate for entry in run.entries if entry.rate] or [1.0])
    timed = [_stretch(*pair, usual) for pair in zip(run.entries, run.covered, strict=True)]
    skipped = _count_warm_up(run.covered, WARMUP)
    kept, entries, covered = timed[skipped:], run.entries[skipped:], run.covered[skipped:]
    noun = "entries" if entries[0].step is None else "steps"
    notes = [f"first {sum(run.covered[:skipped])} of {run.steps} {noun} skipped as warm-up"] if skipped else []
    notes += _batches(entries) + _slow(entries, covered, kept, reading.unit.value)
    return _parts(kept), notes


def _stretch(entry: StepLine, covered: int, usual: float) -> Stretch:
    if entry.seconds:
        work = entry.rate * entry.seconds if entry.rate else entry.work or 0.0
        return Stretch(work * covered, entry.seconds * covered, covered)
    rate = entry.rate or 0.0
    if entry.work:
        return Stretch(entry.work * covered, entry.work * covered / rate, covered)
    return Stretch(usual * covered, usual * covered / rate)  # of steps of equal work, whatever that is


def _batches(entries: Sequence[StepLine]) -> list[str]:
    batches = [entry.work for entry in entries if entry.work and not entry.rate]
    if len(set(batches)) < 2:
        return []
    return [f"the batch varies, from {min(batches):g} to {max(batches):g}: each line counts by its own"]


def _slow(entries: Sequence[StepLine], covered: Sequence[int], parts: Sequence[Stretch], unit: str) -> list[str]:
    """Names lines that took far longer than others: a checkpoint or an evaluation is in them."""
    paces = [part.seconds / part.work for part in parts]
    usual = median(paces)
    slow = [at for at, pace in enumerate(paces) if pace > _SLOW * usual]
    if not slow or len(parts) < 3:
        return []
    others = [part for at, part in enumerate(parts) if at not in slow]
    rate = sum(part.work for part in others) / sum(part.seconds for part in others)
    where = [str(entries[at].step if entries[at].step is not None else at + 1) for at in slow]
    worst = max(slow, key=lambda at: paces[at])
    took = f"{parts[worst].seconds / covered[worst]:.3g} s, " if parts[worst].steps else ""
    return [
        f"{'step' if len(slow) == 1 else 'steps'} {few(where, 5)}: up to {took}{paces[worst] / usual:.3g} times the "
        f"median (checkpoint, evaluation or stall?); counted, {formatting.number(rate)} {unit}/s without"
    ]


def stretches(steps: Sequence[Stretch], warmup: int = WARMUP) -> tuple[tuple[Stretch, ...], str]:
    """Return at most ten stretches of consecutive intervals, to show how steady it was, and a note on what is dropped.

    Of few intervals only the first is dropped; of one, none.
    """
    skipped = _count_warm_up([1] * len(steps), warmup)
    note = f"first {skipped} of {len(steps)} entries skipped as warm-up" if skipped else ""
    return _parts(steps[skipped:]), note


def _count_warm_up(covered: Sequence[int], warmup: int) -> int:
    """How many entries are warm-up: those that begin within so many usual intervals."""
    size = len(covered)
    if size <= 3 * warmup:
        return min(warmup, max(0, size // 3), size - 1)
    done, skipped, enough = 0, 0, warmup * median(covered)
    while skipped < size - 1 and done < enough:
        done, skipped = done + covered[skipped], skipped + 1
    return skipped


def _parts(kept: Sequence[Stretch]) -> tuple[Stretch, ...]:
    size = -(-len(kept) // _MOST)
    return tuple(_join_stretches(kept[at : at + size]) for at in range(0, len(kept), size))


def _join_stretches(part: Sequence[Stretch]) -> Stretch:
    steps = None if any(each.steps is None for each in part) else sum(each.steps or 0 for each in part)
    return Stretch(sum(each.work for each in part), sum(each.seconds for each in part), steps)
