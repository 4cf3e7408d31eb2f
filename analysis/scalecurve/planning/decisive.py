"""How many repetitions decide whether two measurements differ, on the noise of a bundle or of other measurements.

A package adds the noise of others by an entry point in the group ``scalecurve.repetition_noise``: a function without
arguments that returns a list of ``RepetitionNoise``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import FunctionType

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import Bundle
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, table_of
from scalecurve.statistics.comparison import detectable
from scalecurve.statistics.spread import Spread, pooled
from scalecurve_api.registry import Registry

NOISE_OF_OTHERS: Registry[FunctionType] = Registry("scalecurve.repetition_noise", "repetition noise", FunctionType, {})
MOST = 200
"""Repetitions above which an experiment is not planned so: longer runs, or less noise, come first."""


@dataclass(frozen=True)
class RepetitionNoise:
    """How far repetitions differ, as the standard deviation of their logarithms, and where that was seen."""

    seen_in: str
    sd: float

    def repetitions(self, change: float) -> int | None:
        """Find the fewest repetitions on each side that find a relative change; see ``find_deciding_repetitions``."""
        return find_deciding_repetitions(change, self.sd)


def find_deciding_repetitions(change: float, sd: float) -> int | None:
    """Find the fewest repetitions on each side that find a change of throughput with probability 80 %.

    Args:
        change: Relative, such as 0.02.
        sd: Standard deviation of the logarithm of a repetition.

    Returns:
        Two or more; None where ``MOST`` are too few.
    """
    too_few = takewhile(lambda number: not _finds(change, sd, number), range(2, MOST + 1))
    number = 2 + sum(1 for _ in too_few)
    return number if number <= MOST else None


def repetition_noise(bundle: Bundle | None) -> list[RepetitionNoise]:
    """Collect how far repetitions differ: in a bundle, and in the measurements that installed packages bring.

    Args:
        bundle: An earlier bundle, whose repetitions are pooled over its points.

    Returns:
        The bundle's first, if it has two repetitions of a point.
    """
    noise = pooled(p.samples for series in measure(bundle) for p in series.points) if bundle else None
    own = []
    if bundle is not None and noise is not None and noise.variance > 0:
        own.append(RepetitionNoise(bundle.label, float(noise.variance) ** 0.5))
    return [*own, *(each for noises in NOISE_OF_OTHERS.loadable().values() for each in noises())]


def decisive_table(changes: Sequence[float], noises: Sequence[RepetitionNoise]) -> Table:
    """Show how many repetitions decide each difference.

    Args:
        changes: Relative, in the order of the columns.
        noises: How far repetitions differ.

    Returns:
        A row for each; a cell is empty where ``MOST`` repetitions are too few.
    """
    columns = [Column(f"decides_{100 * change:g}", f"{100 * change:g} %", "count") for change in changes]
    return table_of(
        "decisive",
        "Repetitions on each side that decide a difference",
        noises,
        (
            (Column("seen_in", "If repetitions differ as in"), lambda each: each.seen_in),
            (Column("sd", "by (standard deviation)"), lambda each: formatting.percent(each.sd, 2)),
            *((c, lambda each, by=by: each.repetitions(by)) for c, by in zip(columns, changes, strict=True)),
        ),
        [
            "In one session and by turns (run --against): such a difference is then found in 80 % of experiments, and "
            f"reported in 5 % where there is none. No number: more than {MOST}. Sessions differ by more."
        ],
    )


def _finds(change: float, sd: float, number: int) -> bool:
    smallest = detectable(Spread(2 * sd**2 / number, 2 * (number - 1)))
    return smallest is not None and smallest <= change
