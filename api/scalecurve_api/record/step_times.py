"""Step times of the slowest rank, from the journals."""

from collections.abc import Collection, Mapping

from scalecurve_api.record import journal
from scalecurve_api.record.trial_record import StepTimes


def slowest_step_times(journals: Mapping[int, bytes], windows: Collection[int]) -> StepTimes | None:
    """Over the steps of ``windows`` that every rank recorded; None where there are none."""
    if not journals:
        return None
    import numpy as np

    steps: np.ndarray | None = None
    slowest: np.ndarray | None = None
    for data in journals.values():
        rows = np.frombuffer(journal.body(data), dtype=np.dtype(journal.ROW_DTYPE))
        rows = rows[np.isin(rows["window"], list(windows))]
        if steps is None or slowest is None:
            steps, first = np.unique(rows["step"], return_index=True)
            slowest = rows["duration_ns"][first]
        else:
            steps, mine, others = np.intersect1d(steps, rows["step"], return_indices=True)
            slowest = np.maximum(slowest[mine], rows["duration_ns"][others])
    if slowest is None or not len(slowest):
        return None
    seconds = slowest / 1e9
    median, p95, p99 = (float(value) for value in np.quantile(seconds, [0.5, 0.95, 0.99]))
    return StepTimes(
        count=len(seconds), mean=float(seconds.mean()), median=median, p95=p95, p99=p99, maximum=float(seconds.max())
    )
