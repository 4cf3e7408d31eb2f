"""CloudAI's results: the reports of a training, of Megatron's iterations, and of nccl-tests; one file, or a folder."""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalecurve_importing.collectives import allreduce_row, refuse_other_collectives
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Stretch
from scalecurve_importing.series import WARMUP, stretches
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

TRAINING, MEGATRON, NCCL = "training_report.json", "megatron_run_report.csv", "cloudai_nccl_test_csv_report.csv"
_NAMES = (TRAINING, MEGATRON, NCCL)
_SIDES = (("Out-of-place", False), ("In-place", True))


def recognized(path: Path, head: str) -> bool:
    """Return whether it is a report of CloudAI, or a folder with one."""
    return path.name in _NAMES or (path.is_dir() and next(_reports(path), None) is not None)


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every report; of a folder with trainings only those, since their all-reduces are another bundle."""
    reports = list(_reports(path)) if path.is_dir() else [path]
    if trainings := [report for report in reports if report.name == TRAINING]:
        return [_training(report, statements) for report in trainings]
    if iterations := [report for report in reports if report.name == MEGATRON]:
        return [_megatron(report, statements) for report in iterations]
    return [_nccl(report, statements) for report in reports]


def _reports(folder: Path) -> Iterator[Path]:
    return (path for name in _NAMES for path in sorted(folder.rglob(name)))


def _training(path: Path, statements: Statements) -> Reading:
    try:
        tree: dict[str, Any] = json.loads(read_text(path))
        config, steps = dict(tree["config"]), tree["steps"]
        times = [float(step["step_time_sec"]) for step in steps]
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{path}: not CloudAI's training report: {type(error).__name__}: {error}") from error
    place = f"{path.parent.name}/{path.name}"
    names = {"workers": "world_size", "nodes": "num_nodes", "global_batch": "global_batch_size"}
    written = {field: str(config[name]) for field, name in names.items() if config.get(name)}
    facts = agreed(statements.facts, written, place)
    if config.get("model_name"):
        facts.setdefault("model", str(config["model_name"]))
    reading = _read_with_batch(facts, place)
    skipped = config.get("exclude_start_steps", WARMUP)
    if not isinstance(skipped, int) or skipped < 0:
        raise SourceError(f"{place}: exclude_start_steps: got {str(skipped)[:40]!r}, expected a whole number from 0")
    batch = reading.global_batch or 0
    parts, note = stretches([Stretch(batch, time, 1) for time in times if time > 0], skipped)
    if not parts:
        raise SourceError(f"{path}: has no steps")
    return replace(reading, stretches=parts, notes=(*reading.notes, *([note] if note else [])))


def _megatron(path: Path, statements: Statements) -> Reading:
    rows = {row.get("metric_type"): row for row in _table(path)}
    if "iteration_time_ms" not in rows:
        raise SourceError(f"{path}: has no iteration_time_ms")
    place = f"{path.parent.name}/{path.name}"
    reading = _read_with_batch(dict(statements.facts), place)
    seconds = _real(rows["iteration_time_ms"], "avg", path) / 1e3
    return replace(reading, stretches=(Stretch(reading.global_batch or 0, seconds, 1),))


def _read_with_batch(facts: dict[str, str], place: str) -> Reading:
    reading = stated(facts, place, lambda field: f"{place}, {field}", {})
    if reading.global_batch is None:
        raise SourceError(f"{place}: states no batch; add --set global_batch=N or --set batch_per_worker=N")
    return reading


def _nccl(path: Path, statements: Statements) -> Reading:
    rows = _table(path)
    place = f"{path.parent.name}/{path.name}"
    names = {"workers": "Ranks", "workers_per_node": "Devices per Node"}
    first = rows[0] if rows else {}
    written = {field: first[name] for field, name in names.items() if (first.get(name) or "0") != "0"}
    facts = agreed(statements.facts, written, place)
    reading = stated(facts, place, lambda field: f"{place}, {field}", {})
    measured, printed = [], []
    for row in rows:
        size = int(_real(row, "Size (B)", path))
        for side, in_place in _SIDES:
            time = _real(row, f"Time (us) {side}", path)
            if size and time > 0:
                measured.append(allreduce_row(size, time, reading.workers, in_place=in_place))
                bands = (_real(row, f"{name} (GB/s) {side}", path) for name in ("Algbw", "Busbw"))
                printed.append((next(bands), next(bands)))
    if not measured:
        raise SourceError(f"{path}: has no row with a time")
    refuse_other_collectives(printed, reading.workers, str(path))
    return replace(reading, allreduce=tuple(measured), backend="nccl", factors={})


def _table(path: Path) -> Sequence[dict[str, str]]:
    try:
        return list(csv.DictReader(read_text(path).splitlines(), strict=True))
    except csv.Error as error:
        raise SourceError(f"{path}: not CSV: {error}") from error


def _real(row: dict[str, str], column: str, path: Path) -> float:
    try:
        value = float(row[column])
    except (KeyError, ValueError, TypeError):
        value = math.nan
    if not math.isfinite(value):
        raise SourceError(f"{path}: column {column!r}: got {row.get(column)!r}, expected a number")
    return value


IMPORTER = Importer(recognized, read)
