"""What nccl-tests and rccl-tests print, and the report of ``-J`` (version 3 and before).

Each program times one collective, and prints its name since version 2.13. Without a name it must be an all-reduce.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.features.collectives.nccl_tests_output import parse_results
from scalecurve_api.record.rank import RankTopology
from scalecurve_api.record.transport import network_of_nccl
from scalecurve_importing.collectives import (
    allreduce_row,
    benchmark_of,
    data_type,
    iteration_notes,
    refuse_lone_processes,
    refuse_one_rank,
    refuse_other_collectives,
    set_rows,
    wrong_sums,
)
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.printed_lines import parse_printed_lines, strip_prefixes
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

_DEVICE = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)"
)
_PROGRAMS = {
    "all_reduce": Collective.all_reduce,
    "all_gather": Collective.all_gather,
    "reduce_scatter": Collective.reduce_scatter,
    "alltoall": Collective.all_to_all,
    "broadcast": Collective.broadcast,
    "sendrecv": Collective.send_recv,
}
_PROGRAM = re.compile(r"\b(\w+)_perf\b")
_MEAN = "nccl-tests states the mean over iterations: it stands for median, least and p95"
_HIDDEN = "NCCL_"


def recognized(path: Path, head: str) -> bool:
    """Return whether nccl-tests printed this, or its ``-J`` wrote it."""
    if re.search(r"^# nThread \d+ nGpus \d+ minBytes", strip_prefixes(head), re.MULTILINE):
        return True
    return head.lstrip().startswith("{") and '"nccl_version"' in head and '"minimum_bytes"' in head


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every test in a file; raises SourceError for another collective, or a file without results."""
    text = read_text(path)
    if text.lstrip().startswith("{"):
        return _read_json(path, text, statements)
    lines = parse_printed_lines(text)
    refuse_lone_processes(lines, str(path))
    tests = list(_tests([line.text for line in lines]))
    started = {name for line in lines for name in _PROGRAM.findall(line.text)}
    only = started.pop() if len(started) == 1 else ""
    readings = [reading for test in tests for reading in _read_test(path, test, statements, only)]
    if not readings:
        raise SourceError(f"{path}: has no output of nccl-tests (no line '# nThread ... nGpus ...')")
    return readings


def _tests(lines: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] | None = None
    name = version = ""
    for line in lines:
        if line.startswith("# Collective test starting:"):
            name = line
        if line.startswith("# nccl-tests version "):
            version = line
        if line.startswith("# nThread "):
            if part is not None:
                yield part
            part = [line for line in (name, version) if line]
        if part is not None:
            part.append(line)
    if part is not None:
        yield part


def _read_test(path: Path, lines: Sequence[str], statements: Statements, started: str) -> list[Reading]:
    """A reading for every data type and operation of a test; ``started`` is the only program that the output names."""
    devices = [
        _topology(int(m[1]), int(m[2]), m[3], int(m[4]), m[5], m[6]) for m in map(_DEVICE.match, lines) if m is not None
    ]
    reading = _start_reading(path, devices, statements)
    named = lines[0].rpartition(":")[2].strip() if lines[0].startswith("# Collective test starting:") else started
    collective = _collective(named, path)
    iterations = next((int(m[1]) for line in lines if (m := re.search(r"\biters: (\d+)", line))), 1)
    rows: dict[str, list[AllReduceRow]] = {}
    printed: list[tuple[float, float]] = []
    for size, in_place, cells, kind in parse_results(lines):
        _refuse_cpu_time("cputime" in cells, path)
        row = _row(cells, size, reading.workers, in_place, iterations, path)
        if row is not None:
            rows.setdefault(kind, []).append(row)
            printed.append((_real(cells.get("algbw", ""), path), _real(cells.get("busbw", ""), path)))
    if not named and any(kind.partition(" ")[2] in ("", "none") for kind in rows):
        raise SourceError(
            f"{path}: does not say which collective it is, and no all-reduce, as it has no operation; "
            "put the command before it, such as ./all_gather_perf"
        )
    log = "\n".join(lines)
    failed = re.search(r"^# Out of bounds values : \d+ FAILED", log, re.MULTILINE)
    reading = replace(reading, transport=network_of_nccl(log), versions=_versions(log))
    return _finish_readings(reading, rows, printed, path, collective, failed[0].lstrip("# ") if failed else "")


def _versions(log: str) -> dict[str, str]:
    """NCCL's version, as nccl-tests or NCCL itself states it."""
    if code := re.search(r"\bnccl-library=(\d+)", log):
        return {"nccl": _version(int(code[1]))}
    said = re.search(r"\bNCCL version (\d+(?:\.\d+)+)", log)
    return {"nccl": said[1]} if said else {}


def _row(
    cells: Mapping[str, str], size: int, workers: int, in_place: bool, iterations: int, path: Path
) -> AllReduceRow | None:
    if cells.get("time", "N/A") == "N/A" or size == 0:
        return None
    wrong = cells.get("#wrong", cells.get("error", "N/A"))
    errors = 0 if wrong == "N/A" else int(_real(wrong, path))
    least = _real(cells["i_min"], path) if "i_min" in cells else None
    time = _real(cells["time"], path)
    return allreduce_row(size, time, workers, in_place=in_place, iterations=iterations, errors=errors, least_us=least)


def _read_json(path: Path, text: str, statements: Statements) -> list[Reading]:
    try:
        return _read_report(path, json.loads(text), statements)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: no complete report of nccl-tests -J: {type(error).__name__}: {error}") from error


def _read_report(path: Path, tree: Mapping[str, Any], statements: Statements) -> list[Reading]:
    config, results = tree["config"], tree["results"]
    devices = [
        _topology(d["rank"], d["pid"], d["hostname"], d["device"], d["device_hex"], d["device_info"])
        for d in config["devices"]
    ]
    collective = _collective(Path(str((tree.get("args") or [""])[0])).name, path)
    reading = _start_reading(path, devices, statements)
    rows: dict[str, list[AllReduceRow]] = {}
    printed = []
    for result in results:
        kind = " ".join(str(result[name]) for name in ("type", "redop") if name in result)
        for key, in_place in (("out_of_place", False), ("in_place", True)):
            if (body := result.get(key)) is None or not result["size"]:
                continue
            _refuse_cpu_time("cpu_time" in body, path)
            each = result.get(f"{key}_per_iter") or {}
            rows.setdefault(kind, []).append(
                allreduce_row(
                    result["size"],
                    each.get("p50_us", body["time"]),
                    reading.workers,
                    in_place=in_place,
                    iterations=result.get("actual_iterations", config.get("iterations", 1)),
                    errors=int(body["nwrong"] or 0),
                    least_us=each.get("min_us"),
                    p95_us=each.get("p95_us"),
                )
            )
            printed.append((float(body["alg_bw"]), float(body["bus_bw"])))
    variables = dict(str(each).partition("=")[::2] for each in tree.get("env", []))
    reading = replace(
        reading,
        environment={name: value for name, value in variables.items() if name.startswith(_HIDDEN)},
        versions={"nccl": _version(tree["nccl_version"])} if isinstance(tree.get("nccl_version"), int) else {},
    )
    bounds = tree.get("out_of_bounds")
    failed = isinstance(bounds, dict) and str(bounds.get("okay", "true")).lower() != "true"
    iterations = [(result["size"], result.get("out_of_place_per_iter") or {}) for result in results]
    reading = replace(reading, notes=(*reading.notes, *iteration_notes(iterations)))
    return _finish_readings(reading, rows, printed, path, collective, f"out_of_bounds: {bounds}" if failed else "")


def _finish_readings(
    reading: Reading,
    rows: Mapping[str, Sequence[AllReduceRow]],
    printed: Sequence[tuple[float, float]],
    path: Path,
    collective: Collective,
    failed: str,
) -> list[Reading]:
    if not rows:
        raise SourceError(f"{path}: has no line with a result; was the test interrupted?")
    refuse_other_collectives(printed, reading.workers, str(path), collective)
    refuse_one_rank(reading.workers, str(path))
    notes = (*reading.notes, *_network(reading), _MEAN)
    return [
        replace(
            set_rows(reading, own, collective, "nccl-tests"),
            backend="nccl",
            benchmark={**benchmark_of(kind, reading), **reading.benchmark},
            factors=data_type(kind),
            wrong=wrong_sums(own, failed),
            notes=notes,
        )
        for kind, own in rows.items()
    ]


def _network(reading: Reading) -> list[str]:
    said = [f"NCCL {version}" for version in reading.versions.values()]
    if way := reading.transport:
        lacking = f" ({'; '.join(f'{name}: no device found' for name in way.lacking)})" if way.lacking else ""
        said.append(f"NCCL used network {way.network}{lacking}")
    return said


def _start_reading(path: Path, devices: Sequence[RankTopology], statements: Statements) -> Reading:
    hosts = {each.host for each in devices}
    written = {"workers": str(len(devices)), "nodes": str(len(hosts))} if devices else {}
    facts = agreed(statements.facts, written, path.name)
    reading = stated(facts, path.name, lambda field: f"{path}, {field}", {})
    benchmark = {name: str(value) for name, value in reading.factors.items()}
    return replace(reading, topology=tuple(devices), benchmark=benchmark, factors={})


def _topology(rank: int, pid: int, host: str, device: int, place: str, name: str) -> RankTopology:
    return RankTopology(
        rank=rank, local_rank=device, host=host, pid=pid, device=f"{host} {place}".strip(), device_name=name.strip()
    )


def _collective(name: str, path: Path) -> Collective:
    """What a program of this name times; an all-reduce where none is known, which its bandwidths must show."""
    plain = name.rpartition("/")[2].removesuffix("_perf").removesuffix("_bench")
    if plain and plain not in _PROGRAMS:
        raise SourceError(f"{path}: is of {name}; {', '.join(f'{known}_perf' for known in _PROGRAMS)} are imported")
    return _PROGRAMS.get(plain, Collective.all_reduce)


def _refuse_cpu_time(is_cpu: bool, path: Path) -> None:
    if is_cpu:
        raise SourceError(f"{path}: has CPU times (-C 1), which are no times of the all-reduce")


def _real(text: str, path: Path) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise SourceError(f"{path}: got {text!r}, expected a number")
    return value


def _version(code: int) -> str:
    """NCCL's version from its code: 22803 is 2.28.3, and 2708 (before 2.9) 2.7.8."""
    return (
        f"{code // 10000}.{code // 100 % 100}.{code % 100}"
        if code >= 10000
        else (f"{code // 1000}.{code // 100 % 10}.{code % 100}")
    )


IMPORTER = Importer(recognized, read)
