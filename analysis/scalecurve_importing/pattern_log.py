"""Lines of any program by a pattern of the user's or of the library: the named groups of ``workload.log.pattern``."""

import re
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from pydantic import ValidationError

from scalecurve_api.programs.log_format import LONGEST_LINE, LineReader, LogFormat, ReportedLine
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.pattern_library import ToolPattern, library, named, recognize
from scalecurve_importing.printed_lines import PrintedLine, parse_printed_lines
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.stated import agreed
from scalecurve_importing.text_file import read_text
from scalecurve_importing.training_log import runs_in

LINE_CPU_S = 0.2
"""Processor time for one line, as in runs: a pattern may take for ever."""
_Result = TypeVar("_Result")
_UNITS = {"samples/s": "samples", "images/s": "samples", "tokens/s": "tokens"}


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the runs of a text; raises SourceError where a unit is missing, ``ok`` is not found, or no line matches."""
    statements, tool = _add_tool_pattern(path, statements)
    log = _log(statements)
    _check_ok(path, statements.ok)
    readings = runs_in(path, statements, log, _reader(log))
    note = f"lines {f'of {tool} ' if tool else ''}by pattern {log.pattern}"
    if statements.ok is None:
        note += "; whether the run ended well is not known (--ok)"
    return [replace(reading, notes=(*reading.notes, note)) for reading in readings]


def first_matches(path: Path, statements: Statements, most: int = 3) -> list[str]:
    """List the first lines that the pattern reads, with what it reads in them, for a look before an import."""
    reader = _reader(_log(_add_tool_pattern(path, statements)[0]))
    matches = ((line, said) for line in parse_printed_lines(read_text(path)) if (said := reader(line.text)) is not None)
    return [_spell_line(line, said) for line, said in islice(matches, most)]


def _is_recognized(path: Path, head: str) -> bool:
    return recognize(head, library()) is not None


def _add_tool_pattern(path: Path, statements: Statements) -> tuple[Statements, str]:
    """The statements with what the library has of the tool that they name or whose lines these are; its name."""
    known = library(statements.patterns)
    name = statements.pattern or recognize(read_text(path), known)
    tool = named(name, known) if name else None
    if tool is None:
        return statements, ""
    facts = agreed(statements.facts, _facts_in(read_text(path), tool, path.name), path.name)
    units = {group: tool.unit for group in ("throughput", "throughput_per_worker") if tool.unit}
    return replace(
        statements, pattern=tool.pattern, ok=statements.ok or tool.ok, units={**units, **statements.units}, facts=facts
    ), name or ""


def _facts_in(text: str, tool: ToolPattern, place: str) -> dict[str, str]:
    """The fields that lines of a log state; raises SourceError where two lines contradict each other."""
    found: dict[str, str] = {}
    for search in [_limit_time(re.compile(expression).search, "facts") for expression in tool.facts]:
        for match in filter(None, (search(line.text[:LONGEST_LINE]) for line in parse_printed_lines(text))):
            for name, value in match.groupdict().items():
                if found.setdefault(name, value) != value:
                    raise SourceError(f"{place}: has {name} {found[name]} and {value}: split it at its runs")
    return found


def _reader(log: LogFormat) -> Callable[[str], ReportedLine | None]:
    return _limit_time(LineReader(log).read, "--pattern")


def _limit_time(call: Callable[[str], _Result], option: str) -> Callable[[str], _Result]:
    """The same call, ended after a fifth of a second: Python checks for signals within a match, in its main thread."""
    if threading.current_thread() is not threading.main_thread():
        return call

    def call_within_limit(text: str) -> _Result:
        before = signal.signal(signal.SIGVTALRM, _took_too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, LINE_CPU_S)
        try:
            return call(text)
        except TimeoutError:
            raise SourceError(
                f"{option}: takes more than {LINE_CPU_S} s over a line of {len(text)} characters: {text[:80]!r}; avoid "
                "repetitions within repetitions, such as (a+)+"
            ) from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return call_within_limit


def _took_too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError


def _spell_line(line: PrintedLine, reported: ReportedLine) -> str:
    names = {
        "step": reported.step,
        "seconds": reported.seconds,
        "rate": reported.rate,
        "rate of one worker": reported.worker_rate,
        "batch": reported.batch,
        "loss": reported.loss,
    }
    read_in_it = ", ".join(f"{name} {value:g}" for name, value in names.items() if value is not None)
    return f"line {line.number}: {read_in_it} in {line.text.strip()[:100]!r}"


def _log(statements: Statements) -> LogFormat:
    if statements.pattern is None:
        raise SourceError(f"--format pattern: add --pattern REGEX, or the name of a tool: {', '.join(library())}")
    try:
        log = LogFormat(pattern=statements.pattern)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise SourceError(f"--pattern: got {statements.pattern!r}, expected {reason}") from None
    rates = [name for name in ("throughput", "throughput_per_worker") if f"(?P<{name}>" in statements.pattern]
    if not rates:
        return log
    unit = statements.units.get(rates[0]) or statements.units.get("throughput")
    if unit not in _UNITS:
        ask = f"group {rates[0]} states no unit; add --unit {rates[0]}=UNIT, which is"
        got = f"got {unit!r}, expected" if unit else ask
        raise SourceError(f"--pattern: {got} samples/s or tokens/s")
    return log.model_copy(update={"unit": _UNITS[unit]})


def _check_ok(path: Path, ok: str | None) -> None:
    if ok is None:
        return
    try:
        expression = re.compile(ok)
    except (re.error, OverflowError, RecursionError) as error:
        raise SourceError(f"--ok: got {ok!r}, expected a regular expression: {error}") from None
    found = _limit_time(expression.search, "--ok")
    if any(found(line.text[:LONGEST_LINE]) for line in parse_printed_lines(read_text(path))):
        return
    raise SourceError(f"{path}: has no line with --ok {ok!r}: the run did not end well, and no number of it counts")


IMPORTER = Importer(_is_recognized, read)
