"""The rate of a logged run in samples per second, where the log proves that it is one; else why not.

A step time is of an optimizer step of the global batch, in seconds; a throughput is over all devices. What breaks that
is a factor of two or more: a figure of one of several devices, a micro-step, milliseconds. The events of the log count
samples on their own clock, so the rate between them tells which it is.
"""

from dataclasses import dataclass
from statistics import median

from tools.corpus.mlperf_run import LoggedRun

AGREES = 4 / 3
"""A rate is proved within this factor of progress: half-way, as a factor, to any other reading, which is 2 off.

Rates of rounds 4.1 and 5.0 are 0.79 to 1.09 times progress, and those of one device of W within 3 % of its W-th part.
"""
STEP_TIME, THROUGHPUT = "step time x global batch", "logged throughput"
_WITH_EVALUATION = 0.97


@dataclass(frozen=True)
class Rate:
    """What a log gives. ``figure`` is as logged; ``value`` is it in samples per second, None with a ``reason``."""

    figure: float | None
    value: float | None
    basis: str
    reason: str = ""


def rate_of(run: LoggedRun, workers: int) -> Rate:
    """The rate of a run.

    Args:
        run: What its log states.
        workers: Devices in all, of the system's description.

    Returns:
        The median over the logged step times, or throughputs where there are none, and whether its unit is proved.
    """
    if run.step_s:
        seconds = median(run.step_s[1:] or run.step_s)  # the first has what happens once
        if run.global_batch is None:
            return Rate(1 / seconds, None, STEP_TIME, "step time without global_batch_size")
        figure, basis = run.global_batch / seconds, STEP_TIME
    elif run.throughputs:
        figure, basis = median(run.throughputs), THROUGHPUT
    else:
        return Rate(None, None, "", "no step time and no throughput in the log")
    if run.progress is None:
        return Rate(
            figure,
            None,
            basis,
            f"{basis} whose unit no event proves: the log has no steady count of samples",
        )
    ratio = figure / run.progress
    if 1 / AGREES < ratio < AGREES:
        evaluation = ", evaluation included" if basis == THROUGHPUT and ratio < _WITH_EVALUATION else ""
        return Rate(figure, figure, f"{basis}{evaluation}")
    return Rate(figure, None, basis, f"{basis} {_explain_ratio(ratio, run, workers)}")


def _explain_ratio(ratio: float, run: LoggedRun, workers: int) -> str:
    """The reading that fits: what a figure is that differs from progress by this ratio."""
    accumulation = run.accumulation or 1
    readings = (
        (1 / workers, "is of one device, not of all"),
        (1e-3, "is in milliseconds"),
        (float(accumulation), "is of a micro-step, not of a step"),
    )
    for expected, reading in readings:
        if expected != 1 and 1 / AGREES < ratio / expected < AGREES:
            return f"{reading}, by the samples between events"
    return "that differs from the samples between events by more than a third"
