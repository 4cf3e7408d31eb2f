"""Plausibility of a record: a digest proves that it is unchanged, not that it makes sense.

The limits are far beyond anything measurable; within them no arithmetic overflows.
"""

from collections.abc import Iterator

from scalecurve.bundle.problem import FileError
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point

Value = tuple[str, float | None, float, float]

_NS = 1e18
_COUNT = 1e15


def check_plausible(record: TrialRecord) -> None:
    """Refuse impossible values.

    Raises:
        FileError: naming the first field that is out of range.
    """
    for field, value, low, high in _values(record):
        if value is not None and not low <= value <= high:
            raise FileError(f"{field} is {value:.6g}, expected {low:g} to {high:g}")
    point = record.trial.point
    if point.workers != point.nodes * point.workers_per_node:
        raise FileError(f"trial.point has {point.workers} workers, which its layout {point.layout} contradicts")


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
        yield f"{at}.trainAccuracy", evaluation.train_accuracy, 0, 1
    yield from _of_training(record)
    for index, samples in enumerate(record.device_samples):
        if samples is not None:
            yield f"deviceSamples[{index}].smMhzMean", samples.sm_mhz_mean, 0, 1e6
    for rank, load in enumerate(record.foreign_load):
        yield f"foreignLoad[{rank}]", load, 0, 1e6
    for rank, load in enumerate(record.stolen_load):
        yield f"stolenLoad[{rank}]", load, 0, 1e6
    yield from _of_summary(record)


def _of_point(point: Point) -> Iterator[Value]:
    for name, value in (("workers", point.workers), ("nodes", point.nodes), ("workersPerNode", point.workers_per_node)):
        yield f"trial.point.{name}", value, 1, 1e6
    yield "trial.point.globalBatch", point.global_batch, 1, _COUNT
    yield "trial.point.batchPerWorker", point.batch_per_worker, 1, _COUNT


def _of_training(record: TrialRecord) -> Iterator[Value]:
    if record.dataset is not None:
        counts = enumerate(record.dataset.class_counts)
        yield "dataset.train", record.dataset.train, 0, _COUNT
        yield "dataset.val", record.dataset.val, 0, _COUNT
        yield from ((f"dataset.classCounts[{index}]", count, 0, _COUNT) for index, count in counts)
        for index, picture in enumerate(record.dataset.pictures):
            yield f"dataset.pictures[{index}].label", picture.label, 0, 1e6
            yield from ((f"dataset.pictures[{index}].shape", side, 1, 1e4) for side in picture.shape)
    for index, row in enumerate(record.noise_scale):
        at = f"noiseScale[{index}]"
        yield f"{at}.epoch", row.epoch, 0, 1e7
        yield f"{at}.simple", row.simple, 0, 1e30
        yield f"{at}.gradient2", row.gradient2, -1e30, 1e30
        yield f"{at}.trace", row.trace, -1e30, 1e30
    if record.quantization is not None:
        facts = record.quantization
        yield "quantization.floatBytes", facts.float_bytes, 1, _COUNT
        yield "quantization.floatAccuracy", facts.float_accuracy, 0, 1
        for index, quantized in enumerate(facts.rows):
            at = f"quantization.rows[{index}]"
            yield f"{at}.bits", quantized.bits, 2, 16
            yield f"{at}.accuracy", quantized.accuracy, 0, 1
            yield f"{at}.bytes", quantized.bytes, 1, _COUNT
            yield f"{at}.error", quantized.error, 0, 1e30
        for index, histogram in enumerate(facts.histograms):
            at = f"quantization.histograms[{index}]"
            yield f"{at}.low", histogram.low, -1e30, 1e30
            yield f"{at}.high", histogram.high, histogram.low, 1e30
            yield f"{at}.counts", len(histogram.counts), 1, 1e4
            yield from ((f"{at}.counts[{i}]", count, 0, _COUNT) for i, count in enumerate(histogram.counts))


def _of_summary(record: TrialRecord) -> Iterator[Value]:
    summary = record.summary
    if summary is not None:
        yield "summary.throughput", summary.throughput, 0, 1e24
        yield "summary.bestAccuracy", summary.best_accuracy, 0, 1
        yield "summary.secondsToTarget", summary.seconds_to_target, 0, 1e10
        yield "summary.peakMemoryBytes", summary.peak_memory_bytes, 0, 1e18
