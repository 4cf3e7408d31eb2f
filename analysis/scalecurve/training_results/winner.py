"""Which of several trainings is the most accurate, and which others its repetitions cannot tell from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalecurve.render import formatting
from scalecurve.training_results.by_approach import difference, finals
from scalecurve.training_results.outcome import PointTraining
from scalecurve_api.text import count

_MOST = 3


@dataclass(frozen=True)
class Contest:
    """Series of one experiment, mode and worker count; ``tied`` are those that are not separable from the ``best``."""

    best: PointTraining
    tied: tuple[PointTraining, ...]
    others: tuple[PointTraining, ...]

    @property
    def every(self) -> tuple[PointTraining, ...]:
        return self.best, *self.tied, *self.others

    def spelled(self, names: Mapping[tuple[str, str], str], workers: bool) -> str:
        """The winner, and what is tied with it; ``names`` are by (experiment, series)."""

        def name(p: PointTraining) -> str:
            return f"{names[p.bundle, p.series]}, {formatting.interval(p.final, as_percent=True)}"

        at = f" on {count(self.best.point.workers, 'worker')}" if workers else ""
        runs = {len(p.runs) for p in self.every}
        each = f", means of {count(max(runs), 'repetition')}" if len(runs) == 1 and max(runs) > 1 else ""
        first = f"Most accurate of {len(self.every)}{at}{each}: {name(self.best)}"
        if not self.tied:
            return first
        named = "; ".join(map(name, self.tied[: _MOST - 1]))
        more = f"; and {len(self.tied) + 1 - _MOST} more" if len(self.tied) >= _MOST else ""
        why = "tied with" if min(runs) > 1 else "not separable, in single runs, from"
        return f"{first}; {why} {named}{more}"


def contests(points: Sequence[PointTraining]) -> tuple[Contest, ...]:
    """One for each experiment and mode, at the largest worker count that several series have."""
    groups: dict[tuple[str, str, int], list[PointTraining]] = {}
    for p in sorted(points, key=lambda p: p.point.workers):
        groups.setdefault((p.bundle, p.point.mode.value, p.point.workers), []).append(p)
    largest = {key[:2]: group for key, group in groups.items() if len({p.series for p in group}) > 1}
    return tuple(map(contest, largest.values()))


def contest(group: Sequence[PointTraining]) -> Contest:
    """Compare each with the best, over their repetitions; single runs cannot be told apart."""
    best, *rest = sorted(group, key=lambda p: -p.final.value)
    behind = {p.series: difference(finals(best), finals(p), p.level).low for p in rest}
    tied = tuple(p for p in rest if (low := behind[p.series]) is None or low <= 0)
    return Contest(best, tied, tuple(p for p in rest if p not in tied))
