"""Is a record possible at all? A digest vouches for who wrote it, not for its sense.

The limits are far outside of anything measured; within them no arithmetic of the analysis overflows.
"""

from __future__ import annotations

from collections.abc import Iterator

from scalebench.problem import FileError
from scalebench_api.record.trial_record import TrialRecord
from scalebench_api.trial import Point

Value = tuple[str, float | None, float, float]

_NS = 1e18
_COUNT = 1e15


def check_plausible(record: TrialRecord) -> None:
    """Refuse what cannot be.

    Raises:
        FileError: naming the first field that is out of range.
    """
    for field, value, low, high in _values(record):
        if value is not None and not low <= value <= high:
            raise FileError(f"{field} is {value:.6g}, which cannot be: it lies between {low:g} and {high:g}")
    point = record.trial.point
    if point.workers != point.nodes * point.workers_per_node:
        raise FileError(f"trial.point has {point.workers} workers, its layout {point.layout} has another number")


def _values(record: TrialRecord) -> Iterator[Value]:
    """(field, value, least, most) of every number that is calculated with."""
    yield from _of_point(record.trial.point)
    yield "trial.repetition", record.trial.repetition, 0, 1e6
    yield "flopsPerSample", record.flops_per_sample, 1, 1e24
    yield "peakFlops", record.peak_flops, 1, 1e24
    yield "parameters", record.parameters, 0, _COUNT
    for index, window in enumerate(record.windows):
        at = f"windows[{index}]"
        yield f"{at}.wallNs", window.wall_ns, 0, _NS
        yield f"{at}.samples", window.samples, 0, _COUNT
        yield f"{at}.steps", window.steps, 0, 1e12
        yield f"{at}.firstStep", window.first_step, 0, 1e12
        yield f"{at}.energyJ", window.energy_j, 0, 1e15
    for index, row in enumerate(record.allreduce):
        at = f"allreduce[{index}]"
        yield f"{at}.bytes", row.bytes, 1, _COUNT
        for name, value in (("timeUsMedian", row.time_us_median), ("timeUsP95", row.time_us_p95)):
            yield f"{at}.{name}", value, 1e-6, 1e15
        yield f"{at}.algbw", row.algbw, 0, 1e9
        yield f"{at}.busbw", row.busbw, 0, 1e9
    for index, evaluation in enumerate(record.evaluations):
        at = f"evaluations[{index}]"
        yield f"{at}.epoch", evaluation.epoch, 0, 1e7
        yield f"{at}.wallS", evaluation.wall_s, 0, 1e10
        yield f"{at}.accuracy", evaluation.accuracy, 0, 1
    for index, samples in enumerate(record.device_samples):
        if samples is not None:
            yield f"deviceSamples[{index}].smMhzMean", samples.sm_mhz_mean, 0, 1e6
    for rank, load in enumerate(record.foreign_load):
        yield f"foreignLoad[{rank}]", load, 0, 1e6
    yield from _of_summary(record)


def _of_point(point: Point) -> Iterator[Value]:
    for name, value in (("workers", point.workers), ("nodes", point.nodes), ("workersPerNode", point.workers_per_node)):
        yield f"trial.point.{name}", value, 1, 1e6
    yield "trial.point.globalBatch", point.global_batch, 1, _COUNT
    yield "trial.point.batchPerWorker", point.batch_per_worker, 1, _COUNT


def _of_summary(record: TrialRecord) -> Iterator[Value]:
    summary = record.summary
    if summary is not None:
        yield "summary.throughput", summary.throughput, 0, 1e24
        yield "summary.bestAccuracy", summary.best_accuracy, 0, 1
        yield "summary.secondsToTarget", summary.seconds_to_target, 0, 1e10
        yield "summary.peakMemoryBytes", summary.peak_memory_bytes, 0, 1e18
