"""SuperBench's ``results-summary.jsonl``: all-reduces of nccl-bw and rccl-bw, and training throughput of its models.

Throughput is of one GPU, step time in ms. A rank after the metric (``:3``) means that every rank trained by itself.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from scalecurve_importing.collectives import allreduce_row, refuse_other_collectives
from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Stretch
from scalecurve_importing.stated import stated
from scalecurve_importing.text_file import read_text

_ALLREDUCE = re.compile(r"((?:nccl|rccl)-bw[^/]*)/allreduce_((?:\d+_\d+:)?)(\d+)_(time|algbw|busbw)(?::\d+)?")
_UNSTATED = "SuperBench states neither the data type nor the library's version"
_MODEL = r"(?:[^/]*/)?pytorch-([^/]+)/"
_TRAINING = (
    re.compile(rf"{_MODEL}(\w+?)_train_(throughput|step_time)(?::(\d+))?"),
    re.compile(rf"{_MODEL}(throughput|steptime)_train_(\w+?)(?::(\d+))?"),
)


def recognized(path: Path, head: str) -> bool:
    """Return whether SuperBench wrote this: a line for each node."""
    return head.lstrip().startswith("{") and '"node"' in head and re.search(r'"[\w:.-]+/[^"]+":', head) is not None


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the all-reduces of a file, or its trainings if it has no others or `model` is stated.

    Raises SourceError for a file with neither.
    """
    nodes = list(_nodes(path))
    collectives = [reading for place, metrics in nodes for reading in _collectives(place, metrics, statements)]
    trainings = [r for place, metrics in nodes for r in _trainings(place, metrics, statements)]
    if not collectives and not trainings:
        raise SourceError(f"{path}: has no allreduce of nccl-bw or rccl-bw and no training throughput of a model")
    if collectives and trainings:
        left_out = f"{len(trainings)} training results of this file skipped; --set model=NAME imports those instead"
        if "model" not in statements.facts:
            return [replace(reading, notes=(*reading.notes, left_out)) for reading in collectives]
    return collectives if not trainings else [r for r in trainings if statements.facts.get("model") in (None, r.model)]


def _nodes(path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    for at, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            tree = json.loads(line)
        except ValueError as error:
            raise SourceError(f"{path}, line {at}: not JSON: {error}") from error
        numbers = {key: float(value) for key, value in tree.items() if isinstance(value, int | float)}
        yield f"{path.name}, line {at}", numbers


def _collectives(place: str, metrics: Mapping[str, float], statements: Statements) -> Iterator[Reading]:
    """A reading of every benchmark of a node: one of several names, or of several groups of nodes, is another."""
    benchmarks: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for key, value in metrics.items():
        if match := _ALLREDUCE.fullmatch(key):
            benchmarks.setdefault((match[1], match[2]), {}).setdefault(int(match[3]), {})[match[4]] = value
    for (name, group), sizes in benchmarks.items():
        timed = {size: each for size, each in sizes.items() if size and each.get("time", 0) > 0}
        if not timed:
            continue
        where = f"{place}, {name}" + (f", group {group.rstrip(':')}" if group else "")
        reading = stated(statements.facts, where, f"{where}, --set ".__add__, {})
        printed = [(each["algbw"], each["busbw"]) for each in timed.values() if {"algbw", "busbw"} <= each.keys()]
        refuse_other_collectives(printed, reading.workers, where)
        rows = [
            allreduce_row(size, each["time"], reading.workers, in_place=False) for size, each in sorted(timed.items())
        ]
        benchmark = {"benchmark": name, **{key: str(value) for key, value in reading.factors.items()}}
        notes = (*reading.notes, _UNSTATED) if "precision" not in reading.factors else reading.notes
        yield replace(reading, allreduce=tuple(rows), backend="nccl", factors={}, benchmark=benchmark, notes=notes)


def _trainings(place: str, metrics: Mapping[str, float], statements: Statements) -> Iterator[Reading]:
    runs: dict[tuple[str, str, str | None], dict[str, float]] = {}
    for key, value in metrics.items():
        for order, pattern in enumerate(_TRAINING):
            if (match := pattern.fullmatch(key)) and value > 0:
                precision, what = (match[2], match[3]) if order == 0 else (match[3], match[2])
                runs.setdefault((match[1], precision, match[4]), {})[what.replace("_", "")] = value
    for (model, precision, rank), values in runs.items():
        if statements.facts.get("model") not in (None, model) or not values.get("throughput"):
            continue
        facts = {**statements.facts, **({"workers": "1"} if rank is not None else {})}
        where = f"{place}, {model} {precision}" + (f", rank {rank}" if rank else "")
        reading = stated({**facts, "model": model, "precision": precision}, where, f"{where}, --set ".__add__, {})
        rate = values["throughput"]
        share = round(rate * values["steptime"] / 1e3) if values.get("steptime") else None
        if share:
            stretch = Stretch(share * reading.workers, share / rate, 1)
            reading = replace(reading, batch_per_worker=share, global_batch=share * reading.workers)
        else:
            stretch = Stretch(rate * reading.workers, 1.0)
        yield replace(reading, stretches=(stretch,), repetition=rank)


IMPORTER = Importer(recognized, read)
