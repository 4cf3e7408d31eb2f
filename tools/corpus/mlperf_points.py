"""The runs of a results repository as points: a system's description, the runs of its logs, a unit or the reason."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scalecurve.hardware.devices import device_name
from scalecurve_corpus.copies import without_copies
from scalecurve_corpus.schema import (
    SAMPLES,
    Corpus,
    CorpusError,
    PublishedPoint,
    PublishedRun,
    PublishedSource,
)
from tools.corpus.imported import Imported
from tools.corpus.mlperf_run import LoggedRun, read_log
from tools.corpus.mlperf_units import Rate, rate_of
from tools.corpus.results_repository import files, origin

_NOTHING = ("", "n/a", "na", "none", "-")
_MOST_TEXT = 300
_MOST_SCALING = 10
_FILE = re.compile(r"[^/]+/(systems/[^/]+\.json|results/[^/]+/[^/]+/(result_[^/]*\.txt|scaling\.json))")
_VERSIONS = re.compile(r"(cuda|cudnn|nccl|rocm|driver|torch|jax|mofed)", re.IGNORECASE)
_Key = tuple[str, str, str]
_Logs = dict[_Key, list[LoggedRun]]


_POWER = re.compile(r"-(?:ac|dc)-power$")
"""What a submitter's second folder ends in, with runs whose power was measured: another system, no other submitter."""


@dataclass(frozen=True)
class _System:
    device: str
    nodes: int
    devices_per_node: int
    software: str
    interconnect: str


def import_results(path: Path, name: str | None = None) -> Imported:
    """Read a repository of MLPerf results.

    Args:
        path: A checkout or a bare git repository.
        name: Name of the source; that of its round by default.

    Returns:
        The points in the order of submitter, system and benchmark, each with its runs in time order.

    Raises:
        CorpusError: the repository cannot be read, or has no result.
    """
    systems: dict[tuple[str, str], _System | str] = {}
    logs: _Logs = defaultdict(list)
    scalings: dict[_Key, float] = {}
    skipped: list[tuple[str, str]] = []
    count = 0
    for file, data in files(path, _FILE.fullmatch):
        submitter, _, system, *benchmark = file.split("/")
        count += file.endswith(".txt")
        try:
            if data is None:
                raise CorpusError("listed, but not in the repository's objects")
            if not benchmark:
                systems[submitter, system.removesuffix(".json")] = _system(file, data)
            elif file.endswith(".json"):
                scalings[submitter, system, benchmark[0]] = _scaling(data)
            else:
                logs[submitter, system, benchmark[0]].append(read_log(data, file))
        except CorpusError as error:
            skipped.append((file, str(error).removeprefix(f"{file}, ").removeprefix(f"{file}: ")))
    if not logs:
        raise CorpusError(f"{path}: no SUBMITTER/results/SYSTEM/BENCHMARK/result_*.txt; expected a results repository")
    about = origin(path)
    source = PublishedSource(name or about.name, about.title, about.url, about.license, about.revision)
    points, notes = _points(source.name, systems, logs)
    points = [replace(each, scaling=scalings.get((each.submitter, each.system, each.benchmark))) for each in points]
    points = [replace(each, submitter=_POWER.sub("", each.submitter)) for each in points]
    unique, aliased = without_copies(points)
    return Imported(Corpus((source,), tuple(unique)), (*notes, *_summarize_skipped(skipped), *aliased), count)


def _scaling(data: bytes) -> float:
    try:
        factor = float(json.loads(data)["scaling_factor"])
    except (ValueError, TypeError, KeyError):
        factor = 0.0
    if 1 <= factor < _MOST_SCALING:
        return factor
    raise CorpusError(f"scaling_factor: expected a number from 1 to {_MOST_SCALING}")


def _system(file: str, data: bytes) -> _System | str:
    """What a system's description states; a line instead where that does not say how many devices it has."""
    try:
        tree = json.loads(data)
        nodes, each = _count(tree, "number_of_nodes"), _count(tree, "accelerators_per_node")
    except ValueError as error:
        return f"{file}: {error}"
    return _System(
        device=device_name(_text(tree, "accelerator_model_name")),
        nodes=nodes,
        devices_per_node=each,
        software=_join_texts([_text(tree, "framework"), _stack(tree.get("other_software_stack"))]),
        interconnect=_join_texts([_text(tree, "accelerator_interconnect"), _text(tree, "host_networking")]),
    )


def _count(tree: Any, field: str) -> int:
    value = tree.get(field) if isinstance(tree, dict) else None
    if not (isinstance(value, int | str) and str(value).strip().isdecimal() and 0 < int(value) < 10**6):
        raise ValueError(f"{field}: expected a positive number, got {str(value)[:40]!r}")
    return int(value)


def _stack(stack: Any) -> str:
    """Versions that bear on speed, of a description that is a mapping, a list of mappings, or a text."""
    if isinstance(stack, list):
        return _join_texts([_stack(each) for each in stack])
    if not isinstance(stack, Mapping):
        return str(stack or "")
    return ", ".join(f"{key} {value}" for key, value in stack.items() if _VERSIONS.search(str(key)))


def _text(tree: Mapping[str, Any], field: str) -> str:
    return str(tree.get(field) or "")


def _join_texts(texts: Sequence[str]) -> str:
    cleaned = (" ".join(re.sub(r"[^\x20-\x7e]", " ", text).split()) for text in texts)
    return "; ".join(text for text in cleaned if text.lower() not in _NOTHING)[:_MOST_TEXT]


def _points(
    source: str, systems: Mapping[tuple[str, str], _System | str], logs: _Logs
) -> tuple[list[PublishedPoint], list[str]]:
    points, notes = [], []
    for (submitter, system, benchmark), runs in sorted(logs.items()):
        described = systems.get((submitter, system), f"{submitter}/systems/{system}.json: missing")
        if isinstance(described, str):
            notes.append(f"{described}; {benchmark} of {len(runs)} runs skipped")
            continue
        point, other = _point(source, (submitter, system, benchmark), described, runs)
        points.append(point)
        if other:
            notes.append(
                f"{submitter}/{system}/{benchmark}: {other} of {len(runs)} runs have another global batch; skipped"
            )
    return points, notes


def _point(source: str, key: _Key, system: _System, runs: Sequence[LoggedRun]) -> tuple[PublishedPoint, int]:
    """The point of runs, and how many of them were dropped because they have another global batch."""
    workers = system.nodes * system.devices_per_node
    batch = Counter(run.global_batch for run in runs).most_common(1)[0][0]
    kept = sorted((run for run in runs if run.global_batch == batch), key=lambda run: run.started_at)
    rates = [rate_of(run, workers) for run in kept]
    reason = _reason(rates)
    submitter, name, benchmark = key
    point = PublishedPoint(
        source=source,
        submitter=submitter,
        system=name,
        benchmark=benchmark,
        device=system.device,
        nodes=system.nodes,
        devices_per_node=system.devices_per_node,
        workers=workers,
        global_batch=batch,
        precision=None,
        software=system.software,
        interconnect=system.interconnect,
        unit=None if reason else SAMPLES,
        reason=reason,
        basis="" if reason else Counter(rate.basis for rate in rates if rate.value).most_common(1)[0][0],
        runs=tuple(_run(run, rate, not reason) for run, rate in zip(kept, rates, strict=True)),
    )
    return point, len(runs) - len(kept)


def _reason(rates: Sequence[Rate]) -> str:
    """Why the unit of a point is not proved, empty if it is: every figure that a run has must be."""
    refused = Counter(rate.reason for rate in rates if rate.figure is not None and rate.value is None)
    if refused:
        return refused.most_common(1)[0][0]
    if len({rate.basis.partition(",")[0] for rate in rates if rate.figure is not None}) > 1:
        return "some runs log step times and others a throughput"
    return "" if any(rate.value for rate in rates) else rates[0].reason


def _run(run: LoggedRun, rate: Rate, proved: bool) -> PublishedRun:
    return PublishedRun(
        started_at=run.started_at,
        minutes=run.minutes,
        rate=rate.value if proved else None,
        step_s=run.step_s,
        relative=None if proved else rate.figure,
        progress=run.progress,
        resolution=run.resolution if rate.figure is not None else None,
    )


def _summarize_skipped(skipped: Sequence[tuple[str, str]]) -> list[str]:
    """A line for all files of a folder that were skipped for one reason."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, why in skipped:
        groups[name.rpartition("/")[0], why].append(name)
    return [
        f"{names[0] if len(names) == 1 else f'{folder}, {len(names)} files'}: {why}; skipped"
        for (folder, why), names in groups.items()
    ]
