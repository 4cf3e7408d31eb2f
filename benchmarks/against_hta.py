"""Traces of GPUs by `measure.trace`'s own arithmetic and by HolisticTraceAnalysis: the same classes, side by side.

    pip install HolisticTraceAnalysis==0.5.0      # in an environment of its own; it brings notebooks' packages
    PYTHONPATH=api:worker python -m benchmarks.against_hta TRACE.json.gz...

A trace is one rank's, as torch's profiler writes it. HTA measures from the first kernel's start to the last
one's end, and so do both columns here. Shares are of that time, in percent; overlap is of communication.
"""

import argparse
import gzip
import importlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scalecurve_api.record.step_trace import StepTrace
from scalecurve_worker.torch.explain.kernels import TraceEvent, is_collective, summarize

BAR = 2.0
"""Percentage points that a class may differ by"""
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Shares(NamedTuple):
    """Percent of the traced time; ``overlap`` is None without communication."""

    computing: float
    other: float
    idle: float
    overlap: float | None


def main() -> int:
    """One row for each class of each trace; 1 where one differs by more than the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path, nargs="+")
    missed = 0
    print(f"{'trace':36} {'class':24} {'ours %':>9} {'HTA %':>9} {'differ':>8}")
    for path in parser.parse_args().traces:
        for name, ours, theirs in zip(Shares._fields, of_ours(path), of_hta(path), strict=True):
            if ours is None or theirs is None:
                print(f"{path.parent.name[:36]:36} {name:24} {'none' if ours is None else ours:>9} {theirs!s:>9}")
                missed += ours is not theirs
                continue
            missed += abs(ours - theirs) > BAR
            print(f"{path.parent.name[:36]:36} {name:24} {ours:9.2f} {theirs:9.2f} {ours - theirs:8.2f}")
    return min(missed, 1)


def of_ours(path: Path) -> Shares:
    """By the functions that summarize a trace in the worker."""
    events = [*_events(path)]
    device = [event for event in events if event.on_device]
    span = max(event.end for event in device) - min(event.start for event in device)
    trace: StepTrace = summarize(events, "cuda", 1, span)
    uncopied = summarize(
        [event for event in events if not event.name.startswith(("Memcpy", "Memset"))], "cuda", 1, span
    )
    told = uncopied.communication_ns
    return Shares(
        computing=100 * trace.computing_ns / span,
        other=100 * (trace.copy_ns + trace.exposed_ns) / span,
        idle=100 * trace.idle_ns / span,
        overlap=100 * (1 - uncopied.exposed_ns / told) if told else None,
    )


def of_hta(path: Path) -> Shares:
    """By HTA, whose "non-compute" is what only copies or only communicates."""
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # else times are rounded to a microsecond, a tenth of a small kernel
    hta = importlib.import_module("hta.trace_analysis")
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / "rank-0.json.gz")
        analysis = hta.TraceAnalysis(
            trace_files={_rank(path): "rank-0.json.gz"}, trace_dir=folder, include_last_profiler_step=True
        )
        row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
        talks = any(event.name.startswith("nccl") and event.on_device for event in _events(path))
        overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0] if talks else None
    return Shares(
        computing=row["compute_time_pctg"],
        other=row["non_compute_time_pctg"],
        idle=row["idle_time_pctg"],
        overlap=None if overlap is None else overlap["comp_comm_overlap_pctg"],
    )


def _rank(path: Path) -> int:
    return int((_read(path).get("distributedInfo") or {}).get("rank", 0))


def _read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        tree: dict[str, Any] = json.load(file)
    return tree


def _events(path: Path) -> Iterator[TraceEvent]:
    for event in _read(path)["traceEvents"]:
        kind, name = event.get("cat", ""), event.get("name", "")
        if event.get("ph") == "X" and (kind in ON_DEVICE or is_collective(name)):
            start = round(float(event["ts"]) * 1e3)
            yield TraceEvent(name, start, start + round(float(event["dur"]) * 1e3), 0, kind in ON_DEVICE)


if __name__ == "__main__":
    sys.exit(main())
