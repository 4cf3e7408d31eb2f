"""One log of MLPerf (``:::MLLOG`` lines): what it states of its run, and how far training had come when."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scalecurve.corpus.schema import CorpusError

_MARKER = b":::MLL"
_KEY = re.compile(rb'"key"\s*:\s*"(\w+)"')
_FACTS = ("submission_benchmark", "global_batch_size", "gradient_accumulation_steps", "train_samples")
_MARKS = ("run_start", "run_stop", "block_start", "block_stop", "epoch_start", "epoch_stop", "eval_start", "eval_stop")
_KEYS = frozenset(key.encode() for key in (*_FACTS, *_MARKS, "tracked_stats"))
_STEP_TIMES = ("train_step_time", "train_step_timing in s")
_IMAGES = 1_170_301
"""Training images of the detection benchmark, fixed by its rules; its ``train_samples`` counts batches."""
_TOKENS = 2048
"""Tokens of a sample of GPT-3, fixed by its rules; its log counts tokens."""
_ALIKE, _LEAST_SHARE = 4 / 3, 0.2
_MINUTES_STEP = 0.01
"""``train_time``, from which the throughput of R-GAT was computed, has two decimals."""


@dataclass(frozen=True)
class LoggedEvent:
    """A line of the log."""

    at_s: float
    key: str
    value: Any
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class LoggedRun:
    """What a log states. ``progress`` is samples per second between its events, None where they count none.

    ``resolution`` is the step of a throughput that was computed from rounded minutes, as a share of it.
    """

    benchmark: str
    global_batch: int | None
    accumulation: int | None
    started_at: float
    minutes: float | None
    step_s: tuple[float, ...]
    throughputs: tuple[float, ...]
    progress: float | None
    resolution: float | None = None


def read_log(data: bytes, place: str) -> LoggedRun:
    """Read a log.

    Args:
        data: The bytes of the log.
        place: Names the log in errors.

    Raises:
        CorpusError: a line is not an event, or the log has no run_start or several.
    """
    events = list(_events(data, place))
    starts = [event for event in events if event.key == "run_start"]
    if len(starts) != 1:
        raise CorpusError(f"{place}: run_start: {len(starts)} of them; expected one")
    facts = {event.key: event.value for event in events if event.key in _FACTS}
    stops = [event for event in events if event.key == "run_stop" and event.metadata.get("status") == "success"]
    minutes = (stops[-1].at_s - starts[0].at_s) / 60 if stops else None
    stats = [event.value for event in events if event.key == "tracked_stats" and isinstance(event.value, dict)]
    benchmark = str(facts.get("submission_benchmark", ""))
    stretches = _stretches(events, benchmark, _positive(facts.get("train_samples")))
    return LoggedRun(
        benchmark=benchmark,
        global_batch=_whole(facts.get("global_batch_size")),
        accumulation=_whole(facts.get("gradient_accumulation_steps")),
        started_at=starts[0].at_s,
        minutes=minutes if minutes is not None and minutes > 0 else None,
        step_s=_figures(stats, _STEP_TIMES),
        throughputs=_figures(stats, ("throughput",)),
        progress=_progress(stretches),
        resolution=_MINUTES_STEP / median(rounded) if (rounded := _figures(stats, ("train_time",))) else None,
    )


def _events(data: bytes, place: str) -> Iterator[LoggedEvent]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        # A line of a key that does not matter is never parsed: most lines of a large run are such.
        marker = line.find(_MARKER)
        begin = line.find(b"{", marker) if marker >= 0 else -1
        key = _KEY.search(line, begin) if begin >= 0 else None
        if key is None or key[1] not in _KEYS:
            continue
        try:
            tree = json.loads(line[begin : line.rfind(b"}") + 1])
            metadata = tree.get("metadata")
            at_s = float(tree["time_ms"]) / 1e3
            if not math.isfinite(at_s):
                raise ValueError(f"time_ms is {at_s}")
            yield LoggedEvent(at_s, str(tree["key"]), tree.get("value"), metadata if isinstance(metadata, dict) else {})
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise CorpusError(
                f"{place}, line {number}: not an event of MLLog: {type(error).__name__}: {str(error)[:120]}"
            ) from error


def _progress(stretches: Iterator[tuple[float, float]]) -> float | None:
    """The median rate; None where little of the time passes at it, as when most stretches have no length."""
    timed = [(samples / seconds, seconds) for samples, seconds in stretches if samples > 0 and seconds > 0]
    if not timed:
        return None
    middle = median(rate for rate, _ in timed)
    alike = sum(seconds for rate, seconds in timed if 1 / _ALIKE < rate / middle < _ALIKE)
    return middle if alike > _LEAST_SHARE * sum(seconds for _, seconds in timed) else None


def _stretches(events: Sequence[LoggedEvent], benchmark: str, epoch: float | None) -> Iterator[tuple[float, float]]:
    """Samples and seconds of each stretch of training between evaluations."""
    if benchmark in ("ssd", "retinanet"):
        return _epochs(events, float(_IMAGES))
    if benchmark == "resnet":
        return _epochs(events, epoch) if epoch else iter(())
    if benchmark == "gpt3":
        return _blocks_of_tokens(events)
    if benchmark == "bert":
        return _between_evaluations(events, 1.0)
    if benchmark in ("dlrm_dcnv2", "rgat", "gnn"):
        return _between_evaluations(events, epoch) if epoch else iter(())
    if benchmark == "unet3d":
        return _blocks(events, "first_epoch_num", _samples_a_count(events, epoch)) if epoch else iter(())
    return _blocks(events, "samples_count", 1.0)


def _epochs(events: Sequence[LoggedEvent], samples: float) -> Iterator[tuple[float, float]]:
    start: LoggedEvent | None = None
    for event in events:
        if event.key == "epoch_start":
            start = event
        elif event.key == "epoch_stop" and start is not None:
            yield samples, event.at_s - start.at_s
            start = None


def _between_evaluations(events: Sequence[LoggedEvent], scale: float) -> Iterator[tuple[float, float]]:
    """From the start, or the end of an evaluation, to the start of the next; ``epoch_num`` counts samples or epochs."""
    since: float | None = None
    done = 0.0
    for event in events:
        if event.key in ("epoch_start", "eval_stop"):
            since = event.at_s
        elif event.key == "eval_start":
            count = _scaled(event, "epoch_num", scale)
            if count is not None and since is not None:
                yield count - done, event.at_s - since
            since, done = None, done if count is None else count


def _samples_a_count(events: Sequence[LoggedEvent], epoch: float) -> float:
    """Whether blocks count samples or epochs: the first starts at epoch 1, which is 1 or the samples of an epoch."""
    counts = (_scaled(event, "first_epoch_num", 1.0) for event in events if event.key == "block_start")
    first = next((count for count in counts if count is not None), 0.0)
    return 1.0 if first >= epoch else epoch


def _blocks(events: Sequence[LoggedEvent], counted: str, scale: float) -> Iterator[tuple[float, float]]:
    """From the start of a block to its end; how far it came may only be told by the next event that counts samples."""
    start: tuple[float, float] | None = None
    end_s: float | None = None
    for event in events:
        count = _scaled(event, counted, scale)
        if start is not None and end_s is None and event.key in ("block_stop", "eval_start"):
            end_s = event.at_s
        if start is not None and end_s is not None and count is not None and count > start[1]:
            yield count - start[1], end_s - start[0]
            start = None
        if event.key == "block_start" and count is not None:
            start, end_s = (event.at_s, count), None


def _blocks_of_tokens(events: Sequence[LoggedEvent]) -> Iterator[tuple[float, float]]:
    """From the start of a block to its end; its start states the tokens of the block."""
    start: tuple[float, float] | None = None
    for event in events:
        if event.key == "block_start":
            samples = _scaled(event, "epoch_count", 1 / _TOKENS)
            start = None if samples is None else (event.at_s, samples)
        elif event.key == "block_stop" and start is not None:
            yield start[1], event.at_s - start[0]
            start = None


def _scaled(event: LoggedEvent, field: str, scale: float) -> float | None:
    value = event.metadata.get(field)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        return None
    return value * scale


def _figures(stats: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[float, ...]:
    found = (_positive(each[name]) for each in stats for name in names if name in each)
    return tuple(figure for figure in found if figure is not None)


def _positive(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < 1e15 else None


def _whole(value: Any) -> int | None:
    number = _positive(value)
    return int(number) if number is not None and number == int(number) else None
