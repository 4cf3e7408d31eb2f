"""What well-known trainers print about their steps: torchtitan, Megatron, NeMo, MaxText.

The lines are read by the same expressions as those of ``instrument: log``.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from scalecurve.importing.columns import Statements
from scalecurve.importing.importer import Importer
from scalecurve.importing.reading import Reading, SourceError, Stretch, Unit
from scalecurve.importing.series import stretches
from scalecurve.importing.stated import stated
from scalecurve.importing.text_file import read_text
from scalecurve_api.programs.log_format import KnownLog, LineReader, LogFormat, ReportedLine

_FEW = 3


def recognized(path: Path, head: str, form: KnownLog) -> bool:
    """Whether a text has lines of this program."""
    reader = LineReader(LogFormat(format=form))
    lines = [line for line in map(reader.read, head.splitlines()) if line is not None]
    return sum(_is_timed(line) for line in lines) >= min(_FEW, max(1, len(lines)))


def read(path: Path, statements: Statements, form: KnownLog) -> list[Reading]:
    """The run of a log; raises SourceError when no line states a time, or the batch or worker count is missing."""
    log = LogFormat(format=form)
    reader = LineReader(log)
    lines = [line for line in map(reader.read, read_text(path).splitlines()) if line is not None and _is_timed(line)]
    if not lines:
        raise SourceError(f"{path}: has no line of {form.value} with a step time or a throughput")
    facts = dict(statements.facts)
    batches = {line.batch for line in lines if line.batch}
    if len(batches) == 1:
        facts.setdefault("global_batch", str(batches.pop()))
    reading = stated(facts, path.name, lambda field: f"{path.name}, --set {field}", {})
    by_rate = all(line.rate or line.worker_rate for line in lines)
    parts, note = stretches([_stretch(line, reading, by_rate, path) for line in lines])
    unit = Unit.tokens if by_rate and log.counts_tokens else Unit.samples
    return [replace(reading, unit=unit, stretches=parts, notes=(*reading.notes, *([note] if note else [])))]


def _is_timed(line: ReportedLine) -> bool:
    return bool(line.seconds or line.rate or line.worker_rate)


def _stretch(line: ReportedLine, reading: Reading, by_rate: bool, path: Path) -> Stretch:
    if by_rate:
        rate = line.rate or (line.worker_rate or 0.0) * reading.workers
        if line.seconds:
            return Stretch(rate * line.seconds, line.seconds, 1)
        return Stretch(rate, 1.0)
    if reading.global_batch is None or not line.seconds:
        raise SourceError(f"{path}: its step times need the batch; state it with --set global_batch=N")
    return Stretch(reading.global_batch, line.seconds, 1)


def _importer(form: KnownLog) -> Importer:
    return Importer(partial(recognized, form=form), partial(read, form=form))


# Those that print a time or a rate; bars of progress print neither.
TORCHTITAN, MEGATRON = _importer(KnownLog.torchtitan), _importer(KnownLog.megatron)
NEMO, MAXTEXT = _importer(KnownLog.nemo), _importer(KnownLog.maxtext)
