"""Samples and seconds of training between the evaluations of a run, by the events of MLPerf's log.

Each benchmark counts in a unit of its own: samples, epochs, batches or tokens. Most logs state at each event how far
training has come. In others the start of a block states how long the block is, and only evaluations count up.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Intervals = list[tuple[float, float]]
_DETECTION, _BY_EPOCHS = ("ssd", "retinanet"), ("dlrm_dcnv2", "rgat", "gnn")
_BENCHMARKS = (*_DETECTION, *_BY_EPOCHS, "bert", "gpt3", "resnet", "unet3d")
_IMAGES = 1_170_301
"""Training images of the detection benchmark, fixed by its rules; its ``train_samples`` counts batches."""
_TOKENS = 2048
"""Tokens of a sample of GPT-3, fixed by its rules; its log counts tokens."""


@dataclass(frozen=True)
class LoggedEvent:
    """A line of the log."""

    at_s: float
    key: str
    value: Any
    metadata: Mapping[str, Any]

    def count(self, field: str) -> float | None:
        """Return a count of the metadata; None unless it is a finite number from 0."""
        value = self.metadata.get(field)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
            return None
        return float(value)


def training_intervals(events: Sequence[LoggedEvent], benchmark: str, epoch: float | None) -> Intervals:
    """Find the intervals of a run.

    Args:
        events: The events of one run, in order.
        benchmark: As ``submission_benchmark`` states it.
        epoch: As ``train_samples`` states it.

    Returns:
        Samples and seconds of each; empty where the log does not count.
    """
    return list(_benchmark_intervals(events, benchmark, epoch)) or _blocks(events)


def epoch_intervals(events: Sequence[LoggedEvent], benchmark: str, epoch: float | None) -> Intervals:
    """Find the intervals of a run whose log counts epochs of ``train_samples``, as those of a benchmark of one's own.

    Args:
        events: The events of one run, in order.
        benchmark: As ``submission_benchmark`` states it; those of MLPerf are in ``training_intervals``.
        epoch: As ``train_samples`` states it.

    Returns:
        Samples and seconds of each block that states its epochs, else of each epoch.
    """
    if epoch is None or benchmark in _BENCHMARKS:
        return []
    return list(_block_intervals(events, "epoch_count", epoch)) or list(_epochs(events, epoch))


def _benchmark_intervals(
    events: Sequence[LoggedEvent], benchmark: str, epoch: float | None
) -> Iterator[tuple[float, float]]:
    if benchmark in _DETECTION:
        yield from _epochs(events, float(_IMAGES))
    elif benchmark == "gpt3":
        yield from _block_intervals(events, "epoch_count", 1 / _TOKENS)
    elif benchmark == "bert":
        yield from _evaluation_intervals(events, 1.0)
    elif epoch is None:
        return
    elif benchmark in _BY_EPOCHS:
        yield from _evaluation_intervals(events, epoch)
    elif benchmark == "resnet":
        yield from _epochs(events, epoch)
    elif benchmark == "unet3d":
        yield from _blocks_of_epochs(events, epoch)


def _epochs(events: Sequence[LoggedEvent], samples: float) -> Iterator[tuple[float, float]]:
    start: LoggedEvent | None = None
    for event in events:
        if event.key == "epoch_start":
            start = event
        elif event.key == "epoch_stop" and start is not None:
            yield samples, event.at_s - start.at_s
            start = None


def _evaluation_intervals(events: Sequence[LoggedEvent], scale: float) -> Iterator[tuple[float, float]]:
    """From the start, or the end of an evaluation, to the start of the next; ``epoch_num`` counts samples or epochs."""
    since: float | None = None
    done = 0.0
    for event in events:
        if event.key in ("epoch_start", "eval_stop"):
            since = event.at_s
        elif event.key == "eval_start":
            count = event.count("epoch_num")
            if count is not None and since is not None:
                yield count * scale - done, event.at_s - since
            since, done = None, done if count is None else count * scale


def _blocks_of_epochs(events: Sequence[LoggedEvent], epoch: float) -> Iterator[tuple[float, float]]:
    """The first block starts at epoch 1, which is 1 or, where blocks count samples, the samples of an epoch."""
    counts = (event.count("first_epoch_num") for event in events if event.key == "block_start")
    first = next((count for count in counts if count is not None), 0.0)
    origin, scale = (epoch, 1.0) if first >= epoch else (1.0, epoch)
    if any(event.key == "block_stop" for event in events):  # some evaluate on other nodes, within the next block
        events = [event for event in events if not event.key.startswith("eval_")]
    for count, seconds in _blocks(events, "first_epoch_num", origin):
        yield count * scale, seconds


def _blocks(events: Sequence[LoggedEvent], field: str = "samples_count", origin: float = 0) -> Intervals:
    """Each block, from its start to its stop or to the evaluation after it; ``origin`` is counted before training."""
    marks = [event for event in events if event.key.startswith(("block_", "eval_"))]
    counts = [None if (count := event.count(field)) is None else count - origin for event in marks]
    stated = [(event.key, count) for event, count in zip(marks, counts, strict=True) if count is not None]
    starts = [count for key, count in stated if key == "block_start"]
    others = {count for key, count in stated if key != "block_start"}
    count_up = bool(starts) and starts[-1] > starts[0]
    if not count_up and min(starts, default=0) > 0 and others <= set(starts):
        return list(_block_intervals(marks, field, 1.0))
    return list(_blocks_between(marks, counts, count_up))


def _block_intervals(events: Sequence[LoggedEvent], field: str, scale: float) -> Iterator[tuple[float, float]]:
    """Blocks whose start, or else stop, states their length."""
    start: LoggedEvent | None = None
    for event in events:
        if event.key == "block_start":
            start = event
        elif event.key == "block_stop" and start is not None:
            if count := start.count(field) or event.count(field):
                yield count * scale, event.at_s - start.at_s
            start = None


def _blocks_between(
    events: Sequence[LoggedEvent], counts: Sequence[float | None], starts_count_up: bool
) -> Iterator[tuple[float, float]]:
    """Blocks by what was trained before and after; the latter may only be stated by an event after the end."""
    began_s: float | None = None
    ended_s: float | None = None
    before = done = 0.0
    for event, count in zip(events, counts, strict=True):
        if began_s is not None and ended_s is None and event.key in ("block_stop", "eval_start"):
            ended_s = event.at_s
        if event.key != "block_start" or starts_count_up:
            done = max(done, count or 0)
        if began_s is not None and ended_s is not None and done > before:
            yield done - before, ended_s - began_s
            began_s = None
        if event.key == "block_start":
            began_s, ended_s, before = event.at_s, None, done
