"""What well-known trainers print about their steps: torchtitan, Megatron, NeMo, MaxText.

The lines are read by the same expressions as those of ``instrument: log``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from scalecurve_api.programs.log_format import KnownLog, LineReader, LogFormat, ReportedLine
from scalecurve_api.text import few
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.printed_lines import PrintedLine, parse_printed_lines
from scalecurve_importing.reading import Reading, SourceError, Unit
from scalecurve_importing.run_lines import StepLine, runs_of
from scalecurve_importing.series import readings_of
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

_FEW = 3
_WORKERS = re.compile(
    r"(?:using world size: |\bworld_size \.{3,} |\bNum_devices: |^Number of (?:GPUs|CPUs): |"
    r"\bregistered\. Starting with |\bGLOBAL_RANK: \d+, MEMBER: \d+/)(\d{1,7})\b"
)
"""How Megatron, MaxText, Horovod's benchmark and Lightning state the number of processes."""
_Reported = tuple[PrintedLine, ReportedLine]


def recognized(path: Path, head: str, form: KnownLog) -> bool:
    """Return whether a text has lines of this program."""
    reader = LineReader(LogFormat(format=form))
    lines = [said for line in parse_printed_lines(head) if (said := reader.read(line.text)) is not None]
    return sum(_is_timed(line) for line in lines) >= min(_FEW, max(1, len(lines)))


def read(path: Path, statements: Statements, form: KnownLog) -> list[Reading]:
    """Read a log's runs; raises SourceError when no line states a time, or the batch or worker count is missing."""
    log = LogFormat(format=form)
    return runs_in(path, statements, log, LineReader(log).read)


def runs_in(
    path: Path, statements: Statements, log: LogFormat, read_line: Callable[[str], ReportedLine | None]
) -> list[Reading]:
    """Read the runs whose steps a log states in this format."""
    lines = [
        (line, said)
        for line in parse_printed_lines(read_text(path))
        if (said := read_line(line.text)) is not None and _is_timed(said)
    ]
    if not lines:
        raise SourceError(f"{path}: has no line of {log.name.removeprefix('format ')} with a step time or a throughput")
    by_rate = all(said.rate or said.worker_rate for _, said in lines)
    unit = Unit.tokens if by_rate and log.counts_tokens else Unit.samples
    facts = _add_batch(_add_workers(statements.facts, path), lines, path.name)
    reading = replace(stated(facts, path.name, lambda field: f"{path.name}, --set {field}", {}), unit=unit)
    runs, notes = runs_of([_entry(*line, reading, by_rate, path) for line in lines], str(path))
    return readings_of(reading, runs, notes)


def _add_workers(facts: Mapping[str, str], path: Path) -> Mapping[str, str]:
    """The statements, with the worker count that the program printed; raises SourceError where they differ."""
    matches = (_WORKERS.search(line.text) for line in parse_printed_lines(read_text(path)))
    counts = {int(match[1]) for match in matches if match}
    if len(counts) > 1:
        raise SourceError(
            f"{path.name}: has runs of {few(sorted(counts))} workers: split it, and import each as a source"
        )
    return agreed(facts, {"workers": str(counts.pop())} if counts else {}, path.name)


def _add_batch(facts: Mapping[str, str], lines: Sequence[_Reported], place: str) -> Mapping[str, str]:
    """The statements, with the batch that all lines have; raises SourceError where both are stated and differ."""
    batches = sorted({said.batch for _, said in lines if said.batch})
    if len(batches) > 1 and (name := next((n for n in ("global_batch", "batch_per_worker") if n in facts), None)):
        raise SourceError(
            f"{place}: has global batches of {few(batches)} samples, and --set {name}={facts[name]} contradicts it"
        )
    return agreed(facts, {"global_batch": str(batches[0])} if len(batches) == 1 else {}, place)


def _is_timed(line: ReportedLine) -> bool:
    return bool(line.seconds or line.rate or line.worker_rate)


def _entry(line: PrintedLine, reported: ReportedLine, reading: Reading, by_rate: bool, path: Path) -> StepLine:
    batch = reported.batch or reading.global_batch
    if by_rate:
        rate = reported.rate or (reported.worker_rate or 0.0) * reading.workers
        work = batch if reading.unit is Unit.samples else None
        return StepLine(line.number, reported.step, reported.seconds, rate, work, line.process)
    if batch is None or not reported.seconds:
        raise SourceError(f"{path}: its step times need the batch; state it with --set global_batch=N")
    return StepLine(line.number, reported.step, reported.seconds, None, batch, line.process)


def _importer(form: KnownLog) -> Importer:
    return Importer(partial(recognized, form=form), partial(read, form=form))


# Those that print a time or a rate; bars of progress print neither.
TORCHTITAN, MEGATRON = _importer(KnownLog.torchtitan), _importer(KnownLog.megatron)
NEMO, MAXTEXT = _importer(KnownLog.nemo), _importer(KnownLog.maxtext)
