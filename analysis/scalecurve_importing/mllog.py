"""MLPerf's log (``:::MLLOG`` lines): throughput from the intervals of training, and the time to the target.

Samples of an interval are those that its events state, else its epochs times ``train_samples``; logs without either may
have ``tracked_stats`` with a throughput. Evaluation lies between intervals and is in no throughput.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from scalecurve_api.text import count
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.mllog_intervals import LoggedEvent, epoch_intervals, training_intervals
from scalecurve_importing.reading import Reading, SourceError, Stretch
from scalecurve_importing.series import stretches
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

_MOST_BROKEN = 0.05  # of the lines: two processes wrote into some, or the log was cut off
_LINE = re.compile(r":::MLL(?:OG|og)\s+(\{.*\})")


def recognized(path: Path, head: str) -> bool:
    """Return whether the text has lines of MLPerf's logger."""
    return _LINE.search(head) is not None


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every run in a log; raises SourceError when it has no throughput, or no worker count."""
    events, broken = _events(path)
    starts = [at for at, event in enumerate(events) if event.key == "run_start"]
    bounds = [*starts, len(events)]
    first = events[: starts[0]] if starts else []
    if not starts:
        raise SourceError(f"{path}: has no run_start")
    runs = [first + events[begin:end] for begin, end in pairwise(bounds)]
    return [
        replace(reading, notes=(*reading.notes, *broken))
        for reading in (_run(path, number, run, statements) for number, run in enumerate(runs, start=1))
    ]


def _events(path: Path) -> tuple[list[LoggedEvent], list[str]]:
    """The events of a log, and a note on the lines that are none; raises SourceError where many are."""
    events: list[LoggedEvent] = []
    broken: list[str] = []
    for at, line in enumerate(read_text(path).splitlines(), start=1):
        if (match := _LINE.search(line)) is None:
            continue
        try:
            tree = json.loads(match[1])
            metadata = tree.get("metadata")
            at_s = float(tree["time_ms"]) / 1e3
            if not math.isfinite(at_s):
                raise ValueError(f"time_ms is {tree['time_ms']}")
            details = metadata if isinstance(metadata, dict) else {}
            events.append(LoggedEvent(at_s, str(tree["key"]), tree.get("value"), details))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            broken.append(f"line {at}: not an event of MLLog: {type(error).__name__}: {error}")
    if len(broken) > _MOST_BROKEN * (len(events) + len(broken)):
        raise SourceError(f"{path}, {broken[0]}; {len(broken)} of {len(events) + len(broken)} are none")
    return events, [f"{count(len(broken), 'line')} skipped ({broken[0]})"] if broken else []


def _run(path: Path, number: int, events: Sequence[LoggedEvent], statements: Statements) -> Reading:
    values = {event.key: event.value for event in events}
    place = path.name if number == 1 else f"{path.name}, run {number}"
    batch = values.get("global_batch_size")
    written = {"global_batch": str(batch)} if isinstance(batch, int) and batch > 0 else {}
    facts = agreed(statements.facts, written, place)
    if isinstance(model := values.get("submission_benchmark"), str):
        facts.setdefault("model", model)
    reading = stated(facts, place, lambda field: f"{place}, {field}", {})
    steps = _intervals(_cut_at_run_stop(events), values, reading.global_batch) or _read_tracked_stats(events)
    if not steps:
        raise SourceError(
            f"{place}: has no throughput: no intervals (block or epoch) with samples, and no tracked_stats"
        )
    parts, note = stretches(steps, warmup=1)
    start, stop = ([e for e in events if e.key == key] for key in ("run_start", "run_stop"))
    reached = bool(stop) and "success" in (stop[-1].value, stop[-1].metadata.get("status"))
    accuracy = [event.value for event in events if event.key == "eval_accuracy"]
    share = accuracy[-1] if accuracy and isinstance(accuracy[-1], float) and 0 <= accuracy[-1] <= 1 else None
    notes = (note, "time to target from run_start to run_stop, evaluation included" if reached else "")
    return replace(
        reading,
        stretches=parts,
        seconds_to_target=stop[-1].at_s - start[0].at_s if reached and stop[-1].at_s > start[0].at_s else None,
        final_accuracy=share,
        notes=(*reading.notes, *filter(None, notes)),
    )


def _cut_at_run_stop(events: Sequence[LoggedEvent]) -> Sequence[LoggedEvent]:
    """Without what stops after the run does: the epoch or block in which an evaluation reached the target."""
    ends = [at for at, event in enumerate(events) if event.key == "run_stop"]
    return events[: ends[0] + 1] if ends else events


def _intervals(events: Sequence[LoggedEvent], values: Mapping[str, Any], batch: int | None) -> list[Stretch]:
    benchmark, epoch = str(values.get("submission_benchmark", "")), values.get("train_samples")
    epoch = float(epoch) if isinstance(epoch, int) and epoch > 0 else None
    intervals = training_intervals(events, benchmark, epoch) or epoch_intervals(events, benchmark, epoch)
    return [
        Stretch(samples, seconds, _steps(samples, batch))
        for samples, seconds in intervals
        if samples > 0 and seconds > 0
    ]


def _steps(work: float, batch: int | None) -> int | None:
    """Whole steps only: the last batch of an epoch may be smaller."""
    return int(work // batch) if batch and work >= batch and work % batch == 0 else None


def _read_tracked_stats(events: Sequence[LoggedEvent]) -> list[Stretch]:
    rates = [
        event.value["throughput"] for event in events
        if event.key == "tracked_stats" and isinstance(event.value, dict) and event.value.get("throughput")
    ]  # fmt: skip
    known = [float(rate) for rate in rates if isinstance(rate, int | float) and rate > 0]
    return [Stretch(max(known), max(known) / rate) for rate in known]  # of equal work: a slow one lasts longer


IMPORTER = Importer(recognized, read)
