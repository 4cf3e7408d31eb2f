"""Chrome traces that torch.profiler (Kineto) wrote, one file a rank, as the traced steps of a point.

Time is split as Meta's HolisticTraceAnalysis does in its temporal breakdown (facebookresearch/HolisticTraceAnalysis,
``hta/analyzers/breakdown_analysis.py``): from the first kernel's start to the last one's end; computing is the union of
the intervals of all kernels but NCCL's, so kernels beside each other count once; idle is what no interval covers.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from scalecurve.curves.traces import TracedPoint
from scalecurve_api.files import open_regular
from scalecurve_api.record.step_trace import StepTrace
from scalecurve_api.record.trace_kernels import NCCL_KERNELS, TraceEvent, summarize
from scalecurve_api.record.trace_skew import calls_of, waited, with_waits
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

MOST_BYTES = 1 << 30
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
_STEP = "ProfilerStep#"
_LONGEST_US = 1e12
_BYTES = {"half": 2, "bfloat16": 2, "double": 8, "long": 8, "short": 2, "char": 1, "byte": 1, "bool": 1}
FOREIGN_NOTES = (
    "Mean of the ranks in the files, from the first kernel's start to the last one's end; the profiler makes "
    "steps slower. Computing, copies, waiting and idle add up to the step, as in HTA's temporal breakdown.",
)
NO_STEPS = "A file marks no steps (profiler.step()): everything in it is taken for one."


class TraceError(ValueError):
    """A file that is no trace of one rank; the message names it."""


class RankTrace(NamedTuple):
    """One file: the events of a rank's GPU, and its steps; 0 where none is marked."""

    file: Path
    events: list[TraceEvent]
    steps: int
    rank: int | None
    world: int | None


def is_trace(path: Path) -> bool:
    """Whether a path is named as a trace is, and no bundle."""
    return path.name.lower().endswith((".json", ".json.gz"))


def read_traces(files: Sequence[Path]) -> tuple[TracedPoint, tuple[str, ...]]:
    """What ran in the traced steps of the given ranks, and what a reader must know of them.

    Raises:
        TraceError: for a file that is no Chrome trace with the kernels of one GPU, for a rank that is there twice, and
            for ranks of different jobs.
    """
    ranks = [_read(file) for file in files]
    worlds = sorted({each.world for each in ranks if each.world is not None})
    if len(worlds) > 1:
        raise TraceError(f"files of different jobs: of {' and of '.join(map(str, worlds))} ranks")
    numbers = [place if each.rank is None else each.rank for place, each in enumerate(ranks)]
    for place, number in enumerate(numbers):
        if (first := numbers.index(number)) != place:
            raise TraceError(f"{files[first]} and {files[place]} are both of rank {number}; expected one file a rank")
    workers = max(worlds[0] if worlds else 1, len(files), 1 + max(numbers))
    traces = [_summary(each) for each in ranks]
    if len(files) == workers:
        calls = [calls_of(each.events, "cuda") for each in ranks]
        traces = [
            trace.model_copy(update={"collectives": with_waits(trace.collectives, waited(calls, place))})
            for place, trace in enumerate(traces)
        ]
    point = Point(mode=Mode.weak, workers=workers, nodes=1, workers_per_node=workers, series="trace", name="trace")
    unmarked = () if all(each.steps for each in ranks) else (NO_STEPS,)
    return TracedPoint("trace", point, tuple(traces), tuple(numbers)), (*FOREIGN_NOTES, *unmarked)


def _summary(rank: RankTrace) -> StepTrace:
    wall_ns = max(event.end for event in rank.events) - min(event.start for event in rank.events)
    if not wall_ns:
        raise TraceError(f"{rank.file}: its kernels take no time")
    try:
        return summarize(rank.events, "cuda", rank.steps or 1, wall_ns)
    except ValidationError as error:
        raise TraceError(f"{rank.file}: its times add up to more than 292 years") from error


def _read(file: Path) -> RankTrace:
    tree = _parse_json(file)
    listed = tree.get("traceEvents") if isinstance(tree, dict) else None
    if not isinstance(listed, list):
        raise TraceError(f"{file}: no trace of torch.profiler: no list traceEvents")
    events: list[TraceEvent] = []
    devices: set[str] = set()
    for number, entry in enumerate(listed, start=1):
        if isinstance(entry, dict) and entry.get("ph") == "X" and str(entry.get("cat")).lower() in _DEVICE:
            arguments = entry.get("args")
            arguments = arguments if isinstance(arguments, dict) else {}
            devices.add(str(arguments.get("device", entry.get("pid"))))
            events += _kernel(entry, arguments, f"{file}: event {number}")
    if not events:
        raise TraceError(f"{file}: no kernel of a GPU among {count(len(listed), 'event')}: was the GPU profiled?")
    if len(devices) > 1:
        raise TraceError(f"{file}: kernels of {count(len(devices), 'GPU')}; expected those of one rank")
    named = (str(entry.get("name")) for entry in listed if isinstance(entry, dict))
    steps = {name for name in named if name.startswith(_STEP)}
    about = tree.get("distributedInfo")
    about = about if isinstance(about, dict) else {}
    return RankTrace(file, events, len(steps), _whole(about.get("rank")), _whole(about.get("world_size")))


def _parse_json(file: Path) -> Any:
    try:
        data = _content(file)
        return json.loads(data)
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror or 'broken gzip file'}") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{file}: gzip file that is broken or cut short") from error
    except json.JSONDecodeError as error:
        raise TraceError(f"{file}: not JSON, or cut short: {error.msg} in line {error.lineno}") from error
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise TraceError(f"{file}: not JSON") from error


def _content(file: Path) -> bytes:
    with open_regular(file) as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        with gzip.GzipFile(fileobj=raw) if packed else raw as opened:
            data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise TraceError(f"{file}: more than {MOST_BYTES >> 20} MiB: trace fewer steps")
    return data


def _kernel(entry: Mapping[str, Any], arguments: Mapping[str, Any], where: str) -> Iterator[TraceEvent]:
    """The kernel, and for one of NCCL's the call of the collective that it is, which carries its bytes."""
    name, start, took = str(entry.get("name")), _us(entry, "ts", where), _us(entry, "dur", where)
    begin, end = round(start * 1000), round((start + took) * 1000)
    yield TraceEvent(name, begin, end, on_device=True)
    if name.startswith(NCCL_KERNELS):
        elements, kind = _whole(arguments.get("In msg nelems")) or 0, str(arguments.get("dtype")).lower()
        yield TraceEvent(f"nccl:{name}", begin, begin, bytes=elements * _BYTES.get(kind, 4))


def _us(entry: Mapping[str, Any], field: str, where: str) -> float:
    value = entry.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _fits(value, least=field == "dur"):
        raise TraceError(f"{where}: {field}: got {str(value)[:40]}, expected microseconds")
    return float(value)


def _fits(value: float, least: bool) -> bool:
    """Whether a number is small enough for nanoseconds in 64 bits; durations are at least 0 and 11 days at most."""
    return 0 <= value <= _LONGEST_US if least else abs(value) < 9e15


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None
