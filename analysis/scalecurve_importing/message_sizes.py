"""Tables of message sizes: OSU's and UCC's benchmarks, and any table with bytes and a time.

OSU and UCC count the bytes of one peer where each rank has a share for every other; they are brought to nccl-tests'
convention, which counts all of them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_importing.collectives import (
    allreduce_row,
    data_type,
    refuse_one_rank,
    refuse_other_collectives,
    set_rows,
)
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.numbers import number
from scalecurve_importing.printed_lines import parse_printed_lines, strip_prefixes
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.stated import stated
from scalecurve_importing.text_file import read_text

_OSU = re.compile(r"^# OSU (\S+) (.+?) Latency Test", re.MULTILINE)
_UCC = re.compile(r"^Collective:\s+(\w+)", re.MULTILINE)
_KINDS = {
    "allreduce": Collective.all_reduce,
    "allgather": Collective.all_gather,
    "alltoall": Collective.all_to_all,
    "reducescatter": Collective.reduce_scatter,
    "broadcast": Collective.broadcast,
    "bcast": Collective.broadcast,
}
_OF_ONE_PEER = (Collective.all_gather, Collective.all_to_all)
_MEAN = "mean over iterations and ranks: it stands for the median, and p95"
_UCC_TABLE = re.compile(r"^\s*Count\s+Size\s+Time, us", re.MULTILINE)


def osu_recognized(path: Path, head: str) -> bool:
    """Return whether a collective benchmark of OSU printed this."""
    return _OSU.search(strip_prefixes(head)) is not None


def ucc_recognized(path: Path, head: str) -> bool:
    """Return whether ``ucc_perftest`` printed this."""
    text = strip_prefixes(head)
    return _UCC.search(text) is not None and _UCC_TABLE.search(text) is not None


def read_osu(path: Path, statements: Statements) -> list[Reading]:
    """Read every test in an output of OSU; raises SourceError for other tests, or where no row has a time."""
    readings = []
    for title, lines in _parts(path, _OSU):
        reading = _start_reading(path, statements, "nccl" if "NCCL" in title[1] else "mpi")
        kind = _kind(title[2], path)
        header = next((line for line in lines if re.match(r"#\s+Size\s", line)), "")
        names = [name.strip().lower() for name in re.split(r"\s{2,}", header.lstrip("# ").strip())]
        if not any("latency" in name for name in names):
            raise SourceError(f"{path}: has no column of a latency below {title[0]!r}")
        rows = []
        for cells in _numbers(lines):
            row = dict(zip(names, cells, strict=False))
            time = next((value for name, value in row.items() if "latency" in name), "")
            least = next((value for name, value in row.items() if name.startswith("min")), None)
            rows.append(_row(path, cells[0], time, reading.workers, kind, least, row.get("iterations")))
        failed = any(re.search(r"\bFail\b", line) for line in lines)
        wrong = "OSU's validation failed" if failed else ""
        readings.append(_finish_reading(path, replace(reading, wrong=wrong), rows, kind, "osu"))
    return readings


def read_ucc(path: Path, statements: Statements) -> list[Reading]:
    """Read every test in an output of UCC; raises SourceError where its bandwidths are of another kind."""
    readings = []
    for title, lines in _parts(path, _UCC):
        reading = _start_reading(path, statements, None)
        kind = _kind(title[1], path)
        rows, printed = [], []
        for cells in (cells for cells in _numbers(lines) if len(cells) > 2):
            row = _row(path, cells[1], cells[2], reading.workers, kind, cells[3] if len(cells) > 3 else None, None)
            rows.append(row)
            if len(cells) >= 8:
                printed.append((row.algbw, number(cells[5], str(path), zero=True)))
        refuse_other_collectives(printed, reading.workers, str(path), kind)
        said = next((m[1] for line in lines if (m := re.match(r"Data ?type:\s+(\w+)", line))), "")
        factors = data_type({"float32": "float", "float16": "half"}.get(said, said))
        readings.append(replace(_finish_reading(path, reading, rows, kind, "ucc"), factors=factors))
    return readings


def _parts(path: Path, title: re.Pattern[str]) -> Iterator[tuple[re.Match[str], list[str]]]:
    lines = [line.text for line in parse_printed_lines(read_text(path))]
    starts = [(at, match) for at, line in enumerate(lines) if (match := title.match(line))]
    if not starts:
        raise SourceError(f"{path}: has no line {title.pattern.lstrip('^')!r}, which begins a test")
    for (at, match), end in zip(starts, [*(at for at, _ in starts[1:]), len(lines)], strict=True):
        yield match, lines[at:end]


def _numbers(lines: Sequence[str]) -> Iterator[list[str]]:
    for line in lines:
        cells = line.split()
        if len(cells) > 1 and all(re.fullmatch(r"[\d.]+", cell) for cell in cells[:2]) and cells[0].isdecimal():
            yield cells


def _kind(name: str, path: Path) -> Collective:
    plain = re.sub(r"[^a-z]", "", name.lower().partition(" personalized")[0])
    if plain not in _KINDS:
        raise SourceError(f"{path}: is of {name.strip()}; expected one of {', '.join(_KINDS)}")
    return _KINDS[plain]


def _start_reading(path: Path, statements: Statements, backend: str | None) -> Reading:
    reading = stated(statements.facts, path.name, lambda field: f"{path.name}, --set {field}", {})
    refuse_one_rank(reading.workers, str(path))
    benchmark = {name: str(value) for name, value in reading.factors.items()}
    return replace(reading, benchmark=benchmark, factors={}, backend=backend)


def _row(
    path: Path, size: str, time: str, workers: int, kind: Collective, least: str | None, iterations: str | None
) -> AllReduceRow:
    place = f"{path.name}, size {size}"
    total = int(number(size, place)) * (workers if kind in _OF_ONE_PEER else 1)
    return allreduce_row(
        total, number(time, place), workers,
        in_place=False,
        iterations=int(number(iterations, place)) if iterations else 1,
        least_us=number(least, place) if least else None,
    )  # fmt: skip


def _finish_reading(path: Path, reading: Reading, rows: Sequence[AllReduceRow], kind: Collective, tool: str) -> Reading:
    if not rows:
        raise SourceError(f"{path}: has no line with a size and a time; was the test interrupted?")
    counted = "; its sizes are of one peer, and times the ranks here" if kind in _OF_ONE_PEER else ""
    note = f"{kind.value} of {tool.upper()}, {_MEAN}{counted}"
    return replace(set_rows(reading, rows, kind, tool), notes=(*reading.notes, note))


def build_table_readings(path: Path, rows: Sequence[tuple[Mapping[str, str], Reading, float]]) -> list[Reading]:
    """Build a reading for every worker count and collective of a table's (cells, reading, microseconds)."""
    groups: dict[tuple[int, int | None, str, str, str], list[tuple[Mapping[str, str], Reading, float]]] = {}
    for cells, reading, time in rows:
        kind = cells.get("collective", Collective.all_reduce.value)
        run = (reading.workers, reading.nodes, kind, str(reading.repetition), str(sorted(reading.factors.items())))
        groups.setdefault(run, []).append((cells, reading, time))
    readings = []
    for (workers, _, name, *_), own in groups.items():
        kind = _kind(name, path)
        refuse_one_rank(workers, own[0][1].place)
        measured = [
            allreduce_row(int(number(cells["bytes"], reading.place)), time, workers, in_place=False)
            for cells, reading, time in own
        ]
        note = "sizes by nccl-tests' convention" + (
            "" if "collective" in own[0][0] else ", all-reduces (no column collective)"
        )
        reading = replace(own[0][1], repetition=None, stretches=(), notes=(note,), factors={})
        readings.append(set_rows(reading, measured, kind, "a table"))
    return readings


OSU, UCC = Importer(osu_recognized, read_osu), Importer(ucc_recognized, read_ucc)
