"""What the times of single iterations tell of a benchmark of collectives: an interval, and whether they drift."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve.render import formatting
from scalecurve.statistics.autocorrelation import autocorrelation
from scalecurve.statistics.detectors import drift
from scalecurve.statistics.spread import student_quantile

_LEAST = 10  # iterations
_LEVEL = 0.95


def of_iterations(results: Sequence[tuple[int, Mapping[str, Any]]]) -> list[str]:
    """Notes on (bytes, statistics over iterations) of every message size; empty where none was timed by itself."""
    skipped = max((_skipped(each) for _, each in results), default=0)
    notes = [f"its quantiles are without the first {skipped} iterations (skipped_iterations)"] if skipped else []
    series = [(size, _times(each)) for size, each in results if size]
    long = [(size, times) for size, times in series if len(times) >= _LEAST]
    if not long:
        return notes
    size, times = max(long, key=lambda each: each[0])
    notes.append(f"{formatting.size(size)}: {_interval(times)}, over {len(times)} iterations")
    changes = {size: found.relative for size, times in long if (found := drift(times)).drifting}
    if changes:
        size = max(changes, key=lambda each: abs(changes[each]))
        way = "rise" if changes[size] > 0 else "fall"
        share = formatting.percent(abs(changes[size]), 0)
        notes.append(
            f"times drift at {len(changes)} of {len(long)} sizes: they {way} by {share} at {formatting.size(size)}"
        )
    return notes


def _interval(times: NDArray[np.float64]) -> str:
    """The mean with its interval, which is wider where iterations next to one another are alike."""
    mean, worth = float(times.mean()), autocorrelation(times).effective_steps
    half = student_quantile(max(worth - 1, 1.0), _LEVEL) * float(times.std(ddof=1)) / math.sqrt(worth)
    low, high = (formatting.number(each) for each in (max(mean - half, 0.0), mean + half))
    return f"mean {formatting.number(mean)} µs ({low}–{high})"


def _times(statistics: Mapping[str, Any]) -> NDArray[np.float64]:
    """Those of the timed iterations, in order."""
    listed = statistics.get("times_us")
    values = [float(value) for value in listed if isinstance(value, int | float)] if isinstance(listed, list) else []
    kept = [value for value in values[_skipped(statistics) :] if math.isfinite(value) and value > 0]
    return np.asarray(kept, dtype=np.float64)


def _skipped(statistics: Mapping[str, Any]) -> int:
    value = statistics.get("skipped_iterations")
    return value if isinstance(value, int) and value > 0 else 0
