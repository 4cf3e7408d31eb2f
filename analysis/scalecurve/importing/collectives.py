"""One row of an all-reduce benchmark, by nccl-tests' conventions, whatever tool wrote it down."""

import math
import re
from collections.abc import Iterable, Sequence

from scalecurve.importing.printed_lines import PrintedLine
from scalecurve.importing.reading import Reading, SourceError, Value
from scalecurve_api.record.collective_row import AllReduceRow
from scalecurve_api.text import count, few

_SURE_GB_S = 1.0  # bandwidths are printed with two decimals: ratios of smaller ones say little
_TOLERANCE = 0.04
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
    """Bandwidths are worked out from the time; a tool that states only the mean states it for every quantile."""
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


def refuse_other_collectives(printed: Iterable[Printed], workers: int, place: str) -> None:
    """Bus bandwidth is 2(n-1)/n of the algorithm's for an all-reduce alone.

    Raises SourceError when the printed (algbw, busbw) have another ratio.
    """
    ratios = [bus / alg for alg, bus in printed if alg >= _SURE_GB_S and bus > 0]
    expected = 2 * (workers - 1) / workers
    if ratios and workers > 1 and not math.isclose(sorted(ratios)[len(ratios) // 2], expected, rel_tol=_TOLERANCE):
        raise SourceError(
            f"{place}: busbw is {sorted(ratios)[len(ratios) // 2]:.3g} of algbw, and {expected:.3g} for an all-reduce "
            f"over {count(workers, 'worker')}: only all-reduces are imported"
        )


def refuse_lone_processes(lines: Sequence[PrintedLine], place: str) -> None:
    """Raises SourceError for several programs that each ran by themselves: a rank 0 of each, in one output."""
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
    """Raises SourceError for a test of one rank: it reduces nothing."""
    if workers == 1:
        raise SourceError(f"{place}: an all-reduce over 1 rank is none: if more were started, nccl-tests was {_ALONE}")


def benchmark_of(kind: str, reading: Reading) -> dict[str, str]:
    """What must be the same in all tests of a curve: data type, operation, version and network, as far as stated."""
    element, _, operation = kind.partition(" ")
    said = {"data type": element, "operation": operation, "NCCL version": reading.versions.get("nccl", "")}
    said["network"] = (reading.transport.network or "") if reading.transport and (reading.nodes or 1) > 1 else ""
    return {name: value for name, value in said.items() if value}


def data_type(kind: str) -> dict[str, Value]:
    """The axis of the data type, where ScaleCurve's own benchmark has it."""
    element = kind.partition(" ")[0]
    return {"sizes.dtype": _TYPES[element]} if element in _TYPES else {}


def wrong_sums(rows: Sequence[AllReduceRow], failed: str) -> str:
    """Why a test is void: elements that were wrong, or the test's own verdict."""
    wrong = [row for row in rows if row.errors]
    if not wrong:
        return failed and f"nccl-tests says {failed}"
    most = max(row.errors for row in wrong)
    verdict = f"; nccl-tests says {failed}" if failed else ""
    return f"sums are wrong: up to {count(most, 'element')} in {len(wrong)} of {count(len(rows), 'result')}{verdict}"
