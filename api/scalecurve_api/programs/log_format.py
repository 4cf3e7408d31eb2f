"""What a program prints about its steps: the lines of well-known trainers, and patterns of one's own.

Every shipped format names a line by one expression and finds its numbers by others, in any order: versions of a
program add, drop and move fields. The lines they were written for are in ``tests/api/programs/test_log_format.py``.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from scalecurve_api.model import Count, Described, Whole

NUMBER = r"([-+]?(?:[\d,]+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
TIMES = ("step_time", "step_time_ms", "steps_per_second", "throughput", "throughput_per_worker", "step")
GROUPS = ("step", *TIMES[:-1], "loss", "global_batch")
LONGEST_LINE = 4096
"""Characters of a line that are looked at; what follows is no number of a step."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MLLOG = ":::MLLOG"
_LOSS_ALONE = re.compile(rf"^\s*\{{'loss': '?{NUMBER}")  # of Hugging Face's Trainer, between two bars


class KnownLog(StrEnum):
    """A program whose lines are known."""

    torchtitan = "torchtitan"
    megatron = "megatron"
    nemo = "nemo"
    maxtext = "maxtext"
    huggingface = "huggingface"
    lightning = "lightning"
    mllog = "mllog"


@dataclass(frozen=True)
class ReportedLine:
    """What a line says about steps; ``seconds`` and ``rate`` are a mean over the steps since the line before.

    A line with a loss alone is about the steps of the line before. ``samples`` counts from the beginning of the run.
    ``at_ns`` is the time that the line itself states. A line that ``begins`` says when the next steps begin, and
    nothing about those before.
    """

    step: int | None = None
    seconds: float | None = None
    rate: float | None = None  # per second, of all workers
    worker_rate: float | None = None  # per second, of one
    loss: float | None = None
    batch: int | None = None
    samples: int | None = None
    at_ns: int | None = None
    begins: bool = False


@dataclass(frozen=True)
class _Format:
    anchor: re.Pattern[str]
    numbers: Mapping[str, re.Pattern[str]]
    tokens: bool = False  # whether the throughput counts tokens


def _format(anchor: str, tokens: bool = False, **numbers: str) -> _Format:
    compiled = {name: re.compile(text.replace("NUMBER", NUMBER)) for name, text in numbers.items()}
    return _Format(re.compile(anchor), compiled, tokens)


_BAR = r"\|\s*(\d+)/(\d+)\s\[\d+:[\d:]+<"  # tqdm's
_BARS = r"[|\s]\s*(\d+)/(\d+)\s(?:\[\d+:[\d:]+<|\d+:\d\d:\d\d •)"  # tqdm's or rich's
_FORMATS = {
    KnownLog.torchtitan: _format(
        r"\bstep:\s*\d+\s+loss:.*\b(?:tps|wps):",
        tokens=True,
        step=r"\bstep:\s*(\d+)",
        throughput_per_worker=r"\b(?:tps|wps):\s*NUMBER",
        loss=r"\bloss:\s*NUMBER",
    ),
    KnownLog.megatron: _format(
        r"\biteration\s+\d+/\s*\d+\s*\|.*elapsed time per iteration \(ms\):",
        step=r"\biteration\s+(\d+)/",
        step_time_ms=r"elapsed time per iteration \(ms\):\s*NUMBER",
        global_batch=r"global batch size:\s*(\d+)",
        loss=r"\|\s*(?:\w+ )?loss:\s*NUMBER",
    ),
    KnownLog.nemo: _format(
        r"\breduced_train_loss[:=]",
        step=r"\bglobal_step[:=]\s*NUMBER",
        step_time=r"\btrain_step_timing in s[:=]\s*NUMBER",
        global_batch=r"\bglobal_batch_size[:=]\s*(\d+)",
        loss=r"\breduced_train_loss[:=]\s*NUMBER",
    ),
    KnownLog.maxtext: _format(
        r"\bcompleted step:\s*\d+, seconds:",
        tokens=True,
        step=r"\bcompleted step:\s*(\d+)",
        step_time=r"\bseconds:\s*NUMBER",
        throughput_per_worker=r"\bTokens/s/device:\s*NUMBER",
        loss=r"\bloss:\s*NUMBER",
    ),
    KnownLog.huggingface: _format(rf"^[^:]*{_BAR}", bar=_BAR),
    KnownLog.lightning: _format(
        rf"\bEpoch \d+[:/].*{_BARS}",
        epoch=r"\bEpoch (\d+)[:/]",
        bar=_BARS,
        loss=r"(?<!val_)loss\w*(?:=|: )NUMBER",
    ),
}


class LogFormat(Described):
    """Where the times of steps stand in what a command prints."""

    format: KnownLog | None = None
    """The program whose lines they are; either this or pattern."""
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    """A regular expression (Python's) for one line, with named groups: step_time (s), step_time_ms,
    steps_per_second, throughput, throughput_per_worker or step, and optionally loss and global_batch."""
    unit: Literal["samples", "tokens"] = Field(default="samples", description="What throughput in pattern counts.")
    steps_per_line: Whole = Field(default=1, ge=1, le=1_000_000)
    """Steps between two lines, where pattern has no group step."""
    tokens_per_sample: Count | Annotated[str, StringConstraints(pattern=r"^\{[\w.]+\}$", max_length=100)] | None = None
    """Tokens in a sample, or a placeholder such as {seqLen}; throughput is then in tokens."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        try:
            groups = set(re.compile(pattern).groupindex)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"a regular expression: {error}") from error
        if unknown := sorted(groups - set(GROUPS)):
            raise ValueError(f"named groups {', '.join(GROUPS)}, and not {', '.join(unknown)}")
        if groups.isdisjoint(TIMES):
            raise ValueError(f"a regular expression with a named group {', '.join(TIMES[:-1])} or {TIMES[-1]}")
        return pattern

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        if (self.format is None) == (self.pattern is None):
            raise ValueError("either format or pattern")
        groups = set(re.compile(self.pattern).groupindex) if self.pattern else set()
        rates = groups & {"throughput", "throughput_per_worker"}
        if self.pattern and self.unit == "tokens" and not rates and self.tokens_per_sample is None:
            raise ValueError("a group throughput in pattern, or tokensPerSample, for unit tokens")
        return self

    @property
    def counts_tokens(self) -> bool:
        """Whether throughput in the lines is of tokens."""
        return _FORMATS[self.format].tokens if self.format in _FORMATS else self.unit == "tokens"

    @property
    def name(self) -> str:
        return f"format {self.format.value}" if self.format else f"pattern {self.pattern!r}"


class LineReader:
    """Reads lines of one process in a format."""

    def __init__(self, log: LogFormat) -> None:
        self._format = _FORMATS.get(log.format) if log.format else None
        self._pattern = re.compile(log.pattern) if log.pattern else None
        self._bar_total: int | None = None
        self._bar_ended = False

    def read(self, line: str) -> ReportedLine | None:
        """What the line reports; None of a line that is about something else.

        A pattern of one's own can take very long over a line: the caller bounds it.
        """
        text = _ESCAPES.sub("", line[:LONGEST_LINE])
        if self._pattern is not None:
            match = self._pattern.search(text)
            return _parse_numbers({name: text for name, text in match.groupdict().items() if text}) if match else None
        if self._format is None:
            return _mllog(text)
        if not self._format.anchor.search(text):
            alone = _LOSS_ALONE.search(text)
            return _parse_numbers({"loss": alone[1]}) if alone else None
        found = {name: match for name, expression in self._format.numbers.items() if (match := expression.search(text))}
        numbers = {name: match[1] for name, match in found.items() if name in GROUPS}
        if "bar" not in found:
            return _parse_numbers(numbers)
        done, total = int(found["bar"][1]), int(found["bar"][2])
        if self._bar_total is None or (self._bar_ended and total != self._bar_total):
            self._bar_total = total
        if total != self._bar_total:
            return None  # the bar of an evaluation, inside the bar of the training
        self._bar_ended = done == total
        epoch = int(found["epoch"][1]) if "epoch" in found else 0
        return _parse_numbers({**numbers, "step": str(epoch * total + done)})


def _parse_numbers(numbers: Mapping[str, str]) -> ReportedLine | None:
    """None where a number is none, or no time can be."""
    try:
        values = {name: float(text.replace(",", "")) for name, text in numbers.items()}
    except ValueError:
        return None
    counts = [values[name] for name in ("step", "global_batch") if name in values]
    times = [values[name] for name in TIMES if name != "step" and name in values]
    if not all(0 <= value < 1 << 53 for value in counts) or not all(0 < value < math.inf for value in times):
        return None
    seconds = values.get("step_time")
    if seconds is None and "step_time_ms" in values:
        seconds = values["step_time_ms"] / 1e3
    if seconds is None and "steps_per_second" in values:
        seconds = 1 / values["steps_per_second"]
    return ReportedLine(
        step=int(values["step"]) if "step" in values else None,
        seconds=seconds,
        rate=values.get("throughput"),
        worker_rate=values.get("throughput_per_worker"),
        loss=values.get("loss"),
        batch=int(values["global_batch"]) if "global_batch" in values else None,
    )


def _mllog(text: str) -> ReportedLine | None:
    """MLPerf's: losses and statistics with the samples so far; blocks of training begin and stop.

    https://github.com/mlcommons/logging and https://github.com/mlcommons/training_policies (logging).
    """
    _, mark, rest = text.partition(_MLLOG)
    if not mark:
        return None
    try:
        event = json.loads(rest)
        key, value, metadata = event["key"], event.get("value"), event.get("metadata") or {}
        at_ns = int(event["time_ms"]) * 1_000_000
        samples, step = (_whole(metadata.get(name)) for name in ("samples_count", "step"))
        statistics = value if isinstance(value, dict) else {}
        seconds, rate = (_positive(statistics.get(name)) for name in ("train_step_time", "throughput"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if key not in ("train_loss", "tracked_stats", "block_start", "block_stop") or (samples is None and step is None):
        return None
    loss = float(value) if key == "train_loss" and isinstance(value, int | float) else None
    return ReportedLine(
        step=step if samples is None else None,
        seconds=seconds,
        rate=rate,
        loss=loss,
        samples=samples,
        at_ns=at_ns,
        begins=key == "block_start",
    )


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 53 else None


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None
