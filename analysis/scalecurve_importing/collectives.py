"""Rows of a benchmark of collectives, by nccl-tests' conventions, whatever tool wrote them down."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve.render import formatting
from scalecurve.statistics.autocorrelation import autocorrelation
from scalecurve.statistics.detectors import drift
from scalecurve.statistics.spread import student_quantile
from scalecurve_api.features.collectives.facts import AllReduceRow, CollectiveRow
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.text import count, few
from scalecurve_importing.printed_lines import PrintedLine
from scalecurve_importing.reading import Reading, SourceError, Value

_SURE_GB_S = 1.0  # bandwidths are printed with two decimals: ratios of smaller ones say little
_TOLERANCE = 0.04
_LEAST_ITERATIONS = 10
_LEVEL = 0.95
_TYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16"}
_BEGIN = re.compile(r"# nThread \d+ ")
_RESULT = re.compile(r"\s*\d+\s+\d+\s+[a-z]")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s.*?\bPid\s+(\d+)\s+on\s+(\S+)")
_ALONE = "built without MPI (make MPI=1), or started without mpirun"
Printed = tuple[float, float]


def allreduce_row(
    size: int,
    time_us: float,
    workers: int,
    *,
    in_place: bool,
    iterations: int = 1,
    errors: int = 0,
    least_us: float | None = None,
    p95_us: float | None = None,
) -> AllReduceRow:
    """Compute bandwidths from the time; a tool that states only the mean states it for every quantile."""
    algbw = size / time_us / 1e3
    return AllReduceRow(
        bytes=size,
        in_place=in_place,
        iterations=max(1, iterations),
        time_us_median=time_us,
        time_us_min=time_us if least_us is None else least_us,
        time_us_p95=time_us if p95_us is None else p95_us,
        algbw=algbw,
        busbw=algbw * 2 * (workers - 1) / workers,
        errors=errors,
    )


def collective_row(row: AllReduceRow, kind: Collective, tool: str, workers: int) -> CollectiveRow:
    """Return the same time of any collective, whose bus bandwidth has a factor of its own."""
    fields = {**row.model_dump(), "busbw": row.algbw * kind.bus_factor(workers)}
    return CollectiveRow(**fields, collective=kind, tool=tool)


def set_rows(reading: Reading, rows: Sequence[AllReduceRow], kind: Collective, tool: str) -> Reading:
    """Return the reading with these rows, as all-reduces or as rows of another collective."""
    if kind is Collective.all_reduce:
        return replace(reading, allreduce=tuple(rows))
    return replace(reading, collectives=tuple(collective_row(row, kind, tool, reading.workers) for row in rows))


def merge_collectives(readings: Sequence[Reading], tool: str = "nccl-tests") -> list[Reading]:
    """Bring readings that are not all of all-reduces into one form; those of the same processes are one run."""
    merged: list[Reading] = []
    for reading in readings:
        own = [collective_row(row, Collective.all_reduce, tool, reading.workers) for row in reading.allreduce]
        each = replace(reading, allreduce=(), collectives=(*own, *reading.collectives))
        at = next((at for at, other in enumerate(merged) if _is_same_run(other, each)), None)
        if at is None:
            merged.append(each)
            continue
        places = ", ".join(dict.fromkeys([merged[at].place, each.place]))
        notes = tuple(dict.fromkeys([*merged[at].notes, *each.notes]))
        rows = (*merged[at].collectives, *each.collectives)
        merged[at] = replace(merged[at], place=places, collectives=rows, notes=notes)
    return merged


def _is_same_run(first: Reading, second: Reading) -> bool:
    """Whether two benchmarks are of the same processes but for what they do."""
    if first.wrong or second.wrong or (first.workers, first.nodes) != (second.workers, second.nodes):
        return False
    if dict(first.factors) != dict(second.factors):
        return False
    return {row.collective for row in first.collectives}.isdisjoint(row.collective for row in second.collectives)


def refuse_other_collectives(
    printed: Iterable[Printed], workers: int, place: str, kind: Collective = Collective.all_reduce
) -> None:
    """Refuse printed (algbw, busbw) in another ratio than that of the collective, such as 2(n-1)/n of an all-reduce.

    Raises SourceError.
    """
    ratios = sorted(bus / alg for alg, bus in printed if alg >= _SURE_GB_S and bus > 0)
    expected = kind.bus_factor(workers)
    if ratios and workers > 1 and not math.isclose(ratio := ratios[len(ratios) // 2], expected, rel_tol=_TOLERANCE):
        article = "an" if kind.value[0] in "aeiou" else "a"
        raise SourceError(
            f"{place}: busbw is {ratio:.3g} of algbw, and {expected:.3g} for {article} {kind.value} over "
            f"{count(workers, 'worker')}: it is another collective, or another number of workers"
        )


def refuse_lone_processes(lines: Sequence[PrintedLine], place: str) -> None:
    """Refuse, with a SourceError, several programs that each ran by themselves: a rank 0 of each, in one output."""
    begun = {line.process for line in lines if line.rank is not None and _BEGIN.match(line.text)}
    ranks: dict[str, list[str]] = {}
    ended = False  # a test that printed results; one that did not goes on below the next one's header
    for line in lines:
        ended = ended or _RESULT.match(line.text) is not None
        if _BEGIN.match(line.text) and ended:
            if any(len(processes) > 1 for processes in ranks.values()):
                break
            ranks, ended = {}, False
        if match := _RANK.match(line.text):
            processes = ranks.setdefault(match[1], [])
            if (process := f"{match[2]} on {match[3]}") not in processes:
                processes.append(process)
    twice = next((processes for processes in ranks.values() if len(processes) > 1), [])
    if twice or len(begun) > 1:
        who = few(twice, 3) if twice else few(sorted(begun), 3)
        each = f" of {count(len(ranks), 'rank')}" if ranks else ""
        raise SourceError(
            f"{place}: {max(len(twice), len(begun))} programs{each} each, and no all-reduce over all of them "
            f"({'processes ' if twice else ''}{who}): nccl-tests was {_ALONE}"
        )


def refuse_one_rank(workers: int, place: str) -> None:
    """Refuse, with a SourceError, a test of one rank: it reduces nothing."""
    if workers == 1:
        raise SourceError(f"{place}: an all-reduce over 1 rank is none: if more were started, nccl-tests was {_ALONE}")


def benchmark_of(kind: str, reading: Reading) -> dict[str, str]:
    """Return what must be the same in all tests of a curve, where stated: data type, operation, version, network."""
    element, _, operation = kind.partition(" ")
    said = {
        "data type": element,
        "operation": operation.replace("none", ""),
        "NCCL version": reading.versions.get("nccl", ""),
    }
    said["network"] = (reading.transport.network or "") if reading.transport and (reading.nodes or 1) > 1 else ""
    return {name: value for name, value in said.items() if value}


def data_type(kind: str) -> dict[str, Value]:
    """Return the axis of the data type, where ScaleCurve's own benchmark has it."""
    element = kind.partition(" ")[0]
    return {"sizes.dtype": _TYPES[element]} if element in _TYPES else {}


def wrong_sums(rows: Sequence[AllReduceRow], failed: str) -> str:
    """Say why a test is void: elements that were wrong, or the test's own verdict."""
    wrong = [row for row in rows if row.errors]
    if not wrong:
        return failed and f"nccl-tests says {failed}"
    most = max(row.errors for row in wrong)
    verdict = f"; nccl-tests says {failed}" if failed else ""
    return f"sums are wrong: up to {count(most, 'element')} in {len(wrong)} of {count(len(rows), 'result')}{verdict}"


def iteration_notes(results: Sequence[tuple[int, Mapping[str, Any]]]) -> list[str]:
    """Note what (bytes, statistics over iterations) of every message size tell: an interval, and whether times drift.

    Empty where no iteration was timed by itself.
    """
    skipped = max((_count_skipped_iterations(statistics) for _, statistics in results), default=0)
    notes = [f"its quantiles are without the first {skipped} iterations (skipped_iterations)"] if skipped else []
    series = [(size, _times(statistics)) for size, statistics in results if size]
    long = [(size, times) for size, times in series if len(times) >= _LEAST_ITERATIONS]
    if not long:
        return notes
    size, times = max(long, key=lambda pair: pair[0])
    notes.append(f"{formatting.size(size)}: {_interval(times)}, over {len(times)} iterations")
    changes = {size: trend.relative for size, times in long if (trend := drift(times)).drifting}
    if changes:
        size = max(changes, key=lambda size: abs(changes[size]))
        way = "rise" if changes[size] > 0 else "fall"
        share = formatting.percent(abs(changes[size]), 0)
        notes.append(
            f"times drift at {len(changes)} of {len(long)} sizes: they {way} by {share} at {formatting.size(size)}"
        )
    return notes


def _interval(times: NDArray[np.float64]) -> str:
    """Spell the mean with its interval, which is wider where iterations next to one another are alike."""
    mean, worth = float(times.mean()), autocorrelation(times).effective_steps
    half = student_quantile(max(worth - 1, 1.0), _LEVEL) * float(times.std(ddof=1)) / math.sqrt(worth)
    low, high = (formatting.number(end) for end in (max(mean - half, 0.0), mean + half))
    return f"mean {formatting.number(mean)} µs ({low}–{high})"


def _times(statistics: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the times of the timed iterations, in order."""
    listed = statistics.get("times_us")
    values = [float(value) for value in listed if isinstance(value, int | float)] if isinstance(listed, list) else []
    kept = [value for value in values[_count_skipped_iterations(statistics) :] if math.isfinite(value) and value > 0]
    return np.asarray(kept, dtype=np.float64)


def _count_skipped_iterations(statistics: Mapping[str, Any]) -> int:
    value = statistics.get("skipped_iterations")
    return value if isinstance(value, int) and value > 0 else 0
