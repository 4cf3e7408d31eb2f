"""What no interval of few repetitions can do, computed without draws; called by `coverage`, section 12.

1. Two kinds of runs: what a method can do with three or five repetitions of either side is to hold, or not, for each
   pair of counts of slow runs. All methods are tried, and none covers 93 to 97 % for every share of slow runs.
2. Few degrees of freedom that give way to many (`spread.larger`): coverage over every ratio of both variances, by the
   limit at which they do.
3. Two degrees of freedom for Welch's t, beside each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from scalecurve.statistics.spread import THREE_SESSIONS_LIMIT

SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65)
Array = NDArray[np.float64]


def every_method(repetitions: int, clean: float = 0.95) -> tuple[Array, Array]:
    """(covered by every method at each share, that of the best method), both in percent.

    Runs are fast or slow, without other noise worth counting; the efficiency is 1. Where both sides have as many slow
    runs, an interval holds 1, but for two sides of one kind, where ``clean`` of them do. No method can hold where one
    side has only fast runs and the other only slow ones: it looks as two points that differ. The best has the smallest
    largest coverage of those that never fall below 93 %.
    """
    counts = range(repetitions + 1)
    pairs = [(i, j) for i in counts for j in counts if i < j and (i, j) != (0, repetitions)]
    chance = stats.binom.pmf(np.array(counts)[:, None], repetitions, np.array(SHARES))
    same = np.where(np.isin(counts, (0, repetitions)), clean, 1.0) @ chance**2
    differing = np.array([2 * chance[i] * chance[j] for i, j in pairs])
    holds = (np.arange(2 ** len(pairs))[:, None] >> np.arange(len(pairs))) & 1
    covered = 100 * (same + holds @ differing)
    enough = covered[covered.min(axis=1) >= 93]
    return covered, enough[enough.max(axis=1).argmin()]


def giving_way(degrees: int, limit: float, cells: int = 4001) -> Array:
    """Percent coverage by the ratio of the variance that is known well to the whole, 0 to 1.

    The whole was estimated with few ``degrees``, and counts unless it is below ``limit`` of the part.
    """
    few = stats.chi2.ppf((np.arange(cells) + 0.5) / cells, degrees) / degrees
    known = np.linspace(0, 1, 41)[:, None]
    half = np.where(few < limit * known, special.ndtri(0.975) ** 2 * known, special.stdtrit(degrees, 0.975) ** 2 * few)
    return np.asarray(100 * (2 * special.ndtr(np.sqrt(half)) - 1).mean(axis=1))


def welch(first: int, second: int, ratio: float, plus: int, cells: int = 20_001) -> float:
    """Percent coverage of Welch's t for normal repetitions whose variances have this ratio.

    ``plus`` is 0 for Satterthwaite's degrees of freedom, 2 for those that Welch gave in 1947, with f + 2 for f.
    """
    f1, f2 = first - 1, second - 1
    of_means = ratio * second / first
    drawn = stats.f.ppf((np.arange(cells) + 0.5) / cells, f1, f2)
    share = of_means * drawn / (of_means * drawn + 1)
    critical = special.stdtrit(1 / (share**2 / (f1 + plus) + (1 - share) ** 2 / (f2 + plus)) - plus, 0.975)
    reach = critical * np.sqrt((of_means * drawn + 1) * (f1 + f2) / ((f2 + f1 * drawn) * (of_means + 1)))
    return 100 * float(np.mean(1 - 2 * special.stdtr(f1 + f2, -reach)))


def print_limits() -> None:
    """All three."""
    print("   two kinds of runs, by share: " + "".join(f"{share:8.0%}" for share in SHARES))
    for repetitions in (3, 5):
        covered, best = every_method(repetitions)
        within = int(((covered >= 93) & (covered <= 97)).all(axis=1).sum())
        name = f"{repetitions} v {repetitions}, best of {len(covered)} methods"
        print(f"   {name:30}" + "".join(f"{share:8.1f}" for share in best) + f"   {within} are within 93-97 everywhere")
    print("\n   few degrees of freedom that give way to many: least and largest coverage, by limit")
    limits = (0.5, THREE_SESSIONS_LIMIT, 1.0, 1.5)
    print(f"   {'degrees':10}" + "".join(f"{limit:16g}" for limit in limits))
    for degrees in (1, 2, 3, 4, 11):
        cells = [giving_way(degrees, limit) for limit in limits]
        print(f"   {degrees:<10}" + "".join(f"{cell.min():10.1f}-{cell.max():5.1f}" for cell in cells))
    print("\n   Welch's t, by the ratio of variances")
    ratios = (1, 3, 10, 30, 100)
    print(f"   {'':28}" + "".join(f"{ratio:8}" for ratio in ratios))
    for first, second in ((3, 3), (5, 5), (3, 5), (3, 10)):
        for plus, name in ((0, "Satterthwaite"), (2, "Welch 1947")):
            row = "".join(f"{welch(first, second, ratio, plus):8.1f}" for ratio in ratios)
            print(f"   {f'{first} v {second}, {name}':28}{row}")
