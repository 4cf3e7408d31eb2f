"""NVIDIA's DLLogger: lines ``DLLL {...}``, whose step is a list, such as epoch and iteration.

Lines with a shorter step are of an epoch or of the whole run, and are no steps. Units are those of the log's own
METADATA lines, or of the metric's name.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalecurve_api.text import few
from scalecurve_importing.columns import ColumnError, Statements, entry_of, meaning
from scalecurve_importing.histories import steps_of
from scalecurve_importing.importer import Importer
from scalecurve_importing.printed_lines import parse_printed_lines, strip_prefixes
from scalecurve_importing.reading import Reading, SourceError, Unit
from scalecurve_importing.run_lines import runs_of
from scalecurve_importing.series import readings_of
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

_LINE = re.compile(r"^DLLL (\{.*\})\s*$", re.MULTILINE)
_OTHER = re.compile(r"val|eval|test|infer|compute", re.IGNORECASE)  # no training, or training without its data
_MEASURED = ("throughput", "step_time")
_WORKERS = ("world_size", "num_gpus", "n_gpu", "num_gpu", "gpus", "ngpus")


@dataclass(frozen=True)
class _Line:
    number: int
    process: str
    step: tuple[int, ...]
    data: Mapping[str, Any]


def recognized(path: Path, head: str) -> bool:
    """Return whether the text has lines of DLLogger."""
    return _LINE.search(strip_prefixes(head)) is not None


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read a log's runs; raises SourceError where no metric of its steps is known, or the worker count is missing."""
    trees = list(_trees(path))
    lines = list(_lines(trees))
    deepest = max((len(line.step) for line in lines), default=0)
    steps = [line for line in lines if line.step and len(line.step) == deepest]
    statements = replace(statements, units={**_units(trees), **statements.units})
    metric = _metric(path, steps, statements)
    meant = meaning(_header(metric), path.name, _rename_metric(statements, metric))
    if meant is None:
        raise SourceError(f"{path}: {metric!r} is ignored, and no other metric of its steps is known")
    timed = [line for line in steps if _is_positive(line.data.get(metric))]
    if not timed:
        raise SourceError(f"{path}: no step has a {metric} above 0")
    reading = stated(_facts(path, trees, statements), path.name, lambda field: f"{path.name}, --set {field}", {})
    numbers = _numbers(timed)
    place = f"{path.name}, {metric}"
    entries = [
        replace(entry_of(meant, float(line.data[metric]), reading, place, line.number, step), process=line.process)
        for line, step in zip(timed, numbers, strict=True)
    ]
    runs, notes = runs_of(entries, str(path))
    unit = Unit(meant.unit) if meant.name == "throughput" else Unit.samples
    note = f"{metric}: {meant.spelled}"
    return readings_of(replace(reading, unit=unit, notes=(*reading.notes, note)), runs, notes)


def _trees(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for line in parse_printed_lines(read_text(path)):
        if match := _LINE.match(line.text):
            try:
                tree = json.loads(match[1])
            except ValueError:
                continue  # cut off by a kill, or two processes in one line
            yield line.number, line.process, tree


def _lines(trees: Sequence[tuple[int, str, dict[str, Any]]]) -> Iterator[_Line]:
    for number, process, tree in trees:
        step = tree.get("step")
        parts: list[Any] = step if isinstance(step, list) else [step]
        if not isinstance(tree.get("data"), dict) or not all(isinstance(part, int) for part in parts):
            continue
        yield _Line(number, process, tuple(parts), tree["data"])


def _units(trees: Sequence[tuple[int, str, dict[str, Any]]]) -> dict[str, str]:
    """What the log says of its metrics, by the header that a metric has here."""
    units = {}
    for _, _, tree in trees:
        metadata = tree.get("metadata")
        if isinstance(metadata, dict) and isinstance(tree.get("metric"), str) and isinstance(metadata.get("unit"), str):
            units[_header(tree["metric"])] = metadata["unit"]
    return units


def _metric(path: Path, steps: Sequence[_Line], statements: Statements) -> str:
    names = list(dict.fromkeys(name for line in steps for name in line.data))
    for field in _MEASURED:
        if (chosen := statements.columns.get(field)) is not None:
            if chosen in names:
                return chosen
            raise SourceError(f"{path}: its steps have no {chosen!r}; they have {few(names, 12)}")
    known = [name for name in names if not _OTHER.search(name) and _is_known(name, path, statements)]
    known.sort(key=lambda name: ("step" in name, "total" not in name))
    if not known:
        said = few(names, 12) if names else "nothing"
        raise SourceError(
            f"{path}: no metric of its steps is a known throughput (they have {said}); name one and its unit: "
            "--column throughput=METRIC --unit throughput=images/s"
        )
    return known[0]


def _is_known(name: str, path: Path, statements: Statements) -> bool:
    try:
        meant = meaning(_header(name), path.name, statements)
    except (ColumnError, SourceError):
        return False
    return meant is not None and meant.name in _MEASURED


def _header(metric: str) -> str:
    """As a column of a table would be named: ``train.total_ips`` is of images or other items a second."""
    return re.sub(r"(^|_)ips$", r"\1items_per_sec", metric.rpartition(".")[2])


def _rename_metric(statements: Statements, metric: str) -> Statements:
    columns = {field: _header(metric) if name == metric else name for field, name in statements.columns.items()}
    return replace(statements, columns=columns)


def _facts(path: Path, trees: Sequence[tuple[int, str, dict[str, Any]]], statements: Statements) -> dict[str, str]:
    """The statements, with the worker count that the program logged among its parameters."""
    data = [tree["data"] for _, _, tree in trees if tree.get("step") == "PARAMETER" and isinstance(tree["data"], dict)]
    counts = {each[name] for each in data for name in _WORKERS if isinstance(each.get(name), int) and each[name] > 0}
    written = {"workers": str(counts.pop())} if len(counts) == 1 else {}
    return agreed(statements.facts, written, path.name)


def _numbers(lines: Sequence[_Line]) -> list[int | None]:
    return steps_of(
        [
            {"step": str(line.step[1]), "epoch": str(line.step[0])}
            if len(line.step) > 1
            else {"step": str(line.step[0])}
            for line in lines
        ]
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


IMPORTER = Importer(recognized, read)
