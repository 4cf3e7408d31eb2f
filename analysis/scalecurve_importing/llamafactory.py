"""LLaMA-Factory's ``trainer_log.jsonl``: tokens between its lines.

Its ``throughput`` is a mean since the start of the run, so the tokens and the time of each line are the differences to
the line before it. Its time is in whole seconds.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalecurve.render import formatting
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Unit
from scalecurve_importing.run_lines import StepLine, runs_of
from scalecurve_importing.series import readings_of
from scalecurve_importing.stated import stated
from scalecurve_importing.text_file import read_text

_TOKENS = "tokens and times are differences between lines: its throughput is a mean since the start"
_STEPS = "times are differences between lines"
_SURE, _LONG_S = 1.1, 30.0  # whole seconds are far less than a tenth of so long


@dataclass(frozen=True)
class _Line:
    """``at_s`` and ``tokens`` are since the start of the run."""

    number: int
    step: int
    at_s: float
    tokens: float | None
    rate: float | None = None


def recognized(path: Path, head: str) -> bool:
    """Return whether LLaMA-Factory wrote this."""
    first = head.lstrip().partition("\n")[0]
    return first.startswith("{") and all(
        f'"{name}"' in first for name in ("current_steps", "total_steps", "elapsed_time")
    )


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the runs of a log; raises SourceError where its lines state no time, or the worker count is missing."""
    lines = list(_lines(path))
    counted = all(line.tokens is not None for line in lines)
    reading = stated(statements.facts, path.name, lambda field: f"{path.name}, --set {field}", {})
    if not counted and reading.global_batch is None:
        raise SourceError(f"{path.name}: states no tokens, so its times need the batch: --set global_batch=N")
    entries = _entries(lines, None if counted else reading.global_batch)
    if not entries:
        raise SourceError(f"{path}: has no two lines with a second between them")
    runs, notes = runs_of(entries, str(path))
    unit, note = (Unit.tokens, _TOKENS) if counted else (Unit.samples, _STEPS)
    own = [note, *_contradiction(lines[-1])]
    return readings_of(replace(reading, unit=unit, notes=(*reading.notes, *own)), runs, notes)


def _contradiction(line: _Line) -> list[str]:
    """What to know of a log whose throughput is not its tokens by its time, as of a resumed run or another version."""
    mean = (line.tokens or 0.0) / line.at_s if line.at_s else 0.0
    if not line.rate or not mean or line.at_s < _LONG_S or 1 / _SURE < mean / line.rate < _SURE:
        return []
    said = formatting.number(line.rate)
    return [f"its last throughput is {said} tokens/s, and its tokens by its time are {formatting.number(mean)}"]


def _lines(path: Path) -> Iterator[_Line]:
    for number, text in enumerate(read_text(path).splitlines(), start=1):
        try:
            tree = json.loads(text)
            step, at_s = tree["current_steps"], _seconds(str(tree["elapsed_time"]))
        except (ValueError, KeyError, TypeError):
            continue  # cut off by a kill, or a line of an evaluation
        if isinstance(step, int) and ("loss" in tree or "throughput" in tree):
            yield _Line(number, step, at_s, _tokens(tree, at_s), _count(tree.get("throughput")))


def _tokens(tree: dict[str, Any], at_s: float) -> float | None:
    """Tokens since the start of the run."""
    total, rate = _count(tree.get("total_tokens")), _count(tree.get("throughput"))
    return total if total is not None or rate is None else rate * at_s


def _count(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        return None
    return float(value)


def _entries(lines: Sequence[_Line], batch: int | None) -> list[StepLine]:
    """What happened since the line before; of a run that was resumed, since its first line."""
    entries = []
    before = _Line(0, 0, 0.0, 0.0)
    for line in lines:
        steps, seconds = line.step - before.step, line.at_s - before.at_s
        work = float(batch) if batch else ((line.tokens or 0.0) - (before.tokens or 0.0)) / max(steps, 1)
        if steps < 0 or seconds < 0 or work <= 0:
            before = line
        elif steps and seconds:
            entries.append(StepLine(line.number, line.step, seconds / steps, work=work))
            before = line
    return entries


def _seconds(text: str) -> float:
    """Of ``1:02:03`` or ``2 days, 1:02:03``."""
    days, _, clock = text.rpartition("day")
    parts = clock.lstrip("s, ").split(":")
    if len(parts) != 3:
        raise ValueError(text)
    hours, minutes, seconds = (float(part) for part in parts)
    return (float(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds


IMPORTER = Importer(recognized, read)
