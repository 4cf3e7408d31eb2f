"""One log of MLPerf (``:::MLLOG`` lines): what it states of its run, and how far training had come when."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from scalecurve_corpus.schema import CorpusError
from scalecurve_importing.mllog_intervals import Intervals, LoggedEvent, training_intervals

_MARKER = b":::MLL"
_KEY = re.compile(rb'"key"\s*:\s*"(\w+)"')
_FACTS = ("submission_benchmark", "global_batch_size", "gradient_accumulation_steps", "train_samples")
_MARKS = (
    "run_start",
    "run_stop",
    "block_start",
    "block_stop",
    "epoch_start",
    "epoch_stop",
    "eval_start",
    "eval_stop",
    "eval_accuracy",
)
_KEYS = frozenset(key.encode() for key in (*_FACTS, *_MARKS, "tracked_stats"))
_STEP_TIMES = ("train_step_time", "train_step_timing in s")
_ALIKE, _LEAST_SHARE = 4 / 3, 0.2
_MINUTES_STEP = 0.01
"""``train_time``, from which the throughput of R-GAT was computed, has two decimals."""


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
    intervals = training_intervals(events, benchmark, _positive(facts.get("train_samples")))
    return LoggedRun(
        benchmark=benchmark,
        global_batch=_whole(facts.get("global_batch_size")),
        accumulation=_whole(facts.get("gradient_accumulation_steps")),
        started_at=starts[0].at_s,
        minutes=minutes if minutes is not None and minutes > 0 else None,
        step_s=_figures(stats, _STEP_TIMES),
        throughputs=_figures(stats, ("throughput",)),
        progress=_progress(intervals),
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
        except (ValueError, KeyError, TypeError) as error:
            raise CorpusError(
                f"{place}, line {number}: not an event of MLLog: {type(error).__name__}: {error}"
            ) from error


def _progress(intervals: Intervals) -> float | None:
    """The median rate; None where little of the time passes at it, as when most intervals have no length."""
    timed = [(samples / seconds, seconds) for samples, seconds in intervals if samples > 0 and seconds > 0]
    if not timed:
        return None
    middle = median(rate for rate, _ in timed)
    alike = sum(seconds for rate, seconds in timed if 1 / _ALIKE < rate / middle < _ALIKE)
    return middle if alike > _LEAST_SHARE * sum(seconds for _, seconds in timed) else None


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
