"""Sequential stopping: are the repetitions of a point enough for the precision that the experiment requests?

Pure, and without numpy, for both engines. The interval is that of the analysis: Welch's t on the log of seconds per
sample within one session, Student's t on the sessions' log ratios over several. Looking after every repetition and
stopping at the first narrow interval would select intervals that are too narrow; with at least `LEAST` repetitions on
either side coverage stays within 94-97.2 % (`benchmarks/coverage.py`, section 9).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve_api.text import count

LEAST = 5
"""Repetitions below which no interval is believed, however narrow: four of one kind may hide a second."""
# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T95 = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448),
    *(2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484),
)

Sessions = Sequence[Sequence[float]]
"""Seconds per sample of a point: one sequence for each session, one value for each repetition."""


@dataclass(frozen=True, slots=True)
class StopDecision:
    """Whether to stop, the relative half width of the efficiency's 95 % interval (None: not known yet), and why."""

    enough: bool
    half_width: float | None
    why: str


def enough(point: Sessions, baseline: Sessions, target: float, most: int) -> StopDecision:
    """Whether efficiency is known to `target` (relative half width: 0.01 is one percent), or `most` is reached.

    `most` bounds the repetitions of the point in its last session. A baseline against itself (the same object) is
    judged by its own throughput. Raises ValueError for a target or a limit that is not positive, or a time that is
    not finite and positive.
    """
    if not (math.isfinite(target) and target > 0) or most < 1:
        raise ValueError(f"expected a positive target and limit, got {target!r} and {most!r}")
    sides = [point] if point is baseline else [point, baseline]
    logs = [[[_log(value) for value in session] for session in side] for side in sides]
    half = _half_width(logs)
    done = min(sum(map(len, side)) for side in logs)
    if half is not None and done >= LEAST and half <= target:
        return StopDecision(True, half, f"known to {half * 100:.2g} %, requested were {target * 100:g} %")
    if len(logs[0][-1] if logs[0] else ()) >= most:
        reached = "its interval is not known" if half is None else f"known to {half * 100:.2g} % only"
        return StopDecision(True, half, f"{reached} after the most repetitions allowed, {most}")
    if done < LEAST:
        return StopDecision(False, half, f"{count(done, 'repetition')}, at least {LEAST} are needed")
    return StopDecision(False, half, f"known to {(half or math.inf) * 100:.2g} %, requested are {target * 100:g} %")


def student95(degrees: float) -> float:
    """Two-sided 95 % quantile of Student's t, rounded up to the one of the next lower whole degrees of freedom."""
    if degrees < 1:
        return math.inf
    whole = math.floor(degrees + 1e-9)
    return _T95[whole - 1] if whole <= len(_T95) else 1.96 + 2.5 / whole


def _log(value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"expected finite positive seconds per sample, got {value!r}")
    return math.log(value)


def _half_width(sides: list[list[list[float]]]) -> float | None:
    """Of the log of one throughput, or of the ratio of two; None where there is nothing to estimate it from."""
    both = [index for index in range(min(map(len, sides))) if all(side[index] for side in sides)]
    if len(both) > 1:
        values = [[statistics.fmean(side[index]) for index in both] for side in sides]
        gaps = [first - second for first, second in zip(values[0], values[1], strict=True)] if values[1:] else values[0]
        return student95(len(gaps) - 1) * math.sqrt(statistics.variance(gaps) / len(gaps))
    repetitions = [side[both[0]] if both else [] for side in sides]
    if any(len(values) < 2 for values in repetitions):
        return None
    parts = [(statistics.variance(values) / len(values), len(values) - 1) for values in repetitions]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return 0.0
    return student95(variance**2 / sum(part**2 / free for part, free in parts)) * math.sqrt(variance)
