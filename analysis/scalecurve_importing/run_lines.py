"""What lines or rows say about steps -> the runs that they are of: processes told apart, split where a step goes back.

A line is about the steps since the line before it in its run, so a rate counts by the steps that it covers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from scalecurve.render import formatting
from scalecurve_api.text import few
from scalecurve_importing.reading import SourceError

_SURE = 4  # entries of a run that is no mere jump between processes


@dataclass(frozen=True)
class StepLine:
    """What one line says; ``seconds`` and ``work`` are of one step, ``rate`` and ``work`` over all workers."""

    place: int
    step: int | None = None
    seconds: float | None = None
    rate: float | None = None
    work: float | None = None
    process: str = ""

    @property
    def pace(self) -> float:
        """Seconds for a unit of work, to compare entries of one source."""
        return 1 / self.rate if self.rate else (self.seconds or 0.0) / (self.work or 1.0)


@dataclass(frozen=True)
class RunLines:
    """Entries of one process from one start to its end; ``covered`` are the steps that each is about."""

    entries: tuple[StepLine, ...]
    covered: tuple[int, ...]

    @property
    def steps(self) -> int:
        return sum(self.covered)


def runs_of(entries: Iterable[StepLine], place: str) -> tuple[list[RunLines], tuple[str, ...]]:
    """Return the runs of one process, in their order, and what to know of it.

    Of several processes the slowest stands for all, as a step lasts until its slowest rank is done. Raises SourceError
    where steps jump back and forth, as those of processes that nothing tells apart do.
    """
    each = {name: _split(own, place) for name, own in _processes(entries).items()}
    if len(each) == 1:
        return next(iter(each.values())), ()
    paces = {name: _pace(runs) for name, runs in each.items()}
    slowest = max(paces, key=lambda name: paces[name])
    spread = max(paces.values()) / min(paces.values()) - 1
    named = f", {slowest[0]}," if slowest[0] else ""
    differ = f"they differ by {formatting.percent(spread, 0)}"
    note = f"lines of {len(each)} processes: the slowest{named} stands for all ({differ})"
    return each[slowest], (note,)


def _pace(runs: Sequence[RunLines]) -> float:
    return median(entry.pace for run in runs for entry in run.entries)


def _processes(entries: Iterable[StepLine]) -> dict[tuple[str, int], list[StepLine]]:
    """Entries by process; a step that is said again right away is another process's, where nothing else tells."""
    groups: dict[tuple[str, int], list[StepLine]] = {}
    last: dict[str, tuple[int | None, int]] = {}
    for entry in entries:
        step, again = last.get(entry.process, (None, 0))
        again = again + 1 if entry.step is not None and entry.step == step else 0
        last[entry.process] = entry.step, again
        groups.setdefault((entry.process, again), []).append(entry)
    most = max((len(group) for group in groups.values()), default=0)
    return {name: group for name, group in groups.items() if 2 * len(group) >= most}


def _split(entries: Sequence[StepLine], place: str) -> list[RunLines]:
    parts: list[list[StepLine]] = []
    for entry in entries:
        before = parts[-1][-1].step if parts else None
        if not parts or (entry.step is not None and before is not None and entry.step < before):
            parts.append([])
        parts[-1].append(entry)
    if len(parts) > 2 and median(len(part) for part in parts) < _SURE:
        back = few([str(part[0].place) for part in parts[1:]], 3)
        raise SourceError(
            f"{place}: its steps go back {len(parts) - 1} times (in lines {back}): lines of several processes without "
            "their ranks? Keep those of one, or print the rank before each line"
        )
    return [RunLines(tuple(part), _count_covered_steps(part)) for part in parts]


def _count_covered_steps(entries: Sequence[StepLine]) -> tuple[int, ...]:
    steps = [entry.step for entry in entries]
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return (1,) * len(steps)
    gaps = [max(1, after - before) for before, after in pairwise(known)]
    first = min(gaps[0], max(1, known[0])) if gaps else 1
    return (first, *gaps)
