"""``steps.parquet`` of one trial -> a summary of a few hundred numbers: quantiles, who was slowest, what was noticed.

A bundle may hold a hundred million rows, so rows never leave the trial they belong to: the file is read once, its
sha256 is verified over the bytes that are then decoded, only the durations are decoded, rank by rank, and pyarrow's
memory goes back after each trial. pandas takes no part; ``curves/frames.py`` is for who wants all rows.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from scalecurve.bundle.problem import FileError
from scalecurve.bundle.trial import Trial
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.tables import STEP_COLUMNS, STEPS_FILE
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from scalecurve_api.text import count

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Durations = NDArray[np.int64]

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MAX_TABLE_BYTES = 4 << 30
MAX_ROWS = 200_000_000
_POOL = "ARROW_DEFAULT_MEMORY_POOL"


@dataclass(frozen=True)
class StepTable:
    """Durations in ns, shape (ranks, steps), of the timed steps and of the steps without all-reduce.

    ``own`` is None where a trial has no windows without the all-reduce: only there do ranks not wait for each other.
    """

    timed: Durations
    own: Durations | None
    rows: int


def read_steps(trial: Trial) -> StepTable:
    """The timed steps of a trial that has a record.

    Raises FileError when the table is missing, does not match the sha256 in ``trial.json``, or lacks timed steps.
    """
    record = trial.record
    if record is None or STEPS_FILE not in record.files:
        raise FileError("not named in the record")
    data = read_table(trial, STEPS_FILE)
    timed = _windows(record, WindowKind.train)
    unsynchronized = _windows(record, WindowKind.no_communication)
    if not timed:
        raise FileError("trial.json has no timed windows")
    return _decode(data, record.trial.point.workers, timed, unsynchronized)


def read_table(trial: Trial, name: str) -> bytes:
    """All bytes of a table, which has the sha256 that ``trial.json`` states.

    Raises FileError when it is missing or unreadable, or has another sha256.
    """
    data = trial.read(name, MAX_TABLE_BYTES)
    if trial.record is None or hashlib.sha256(data).hexdigest() != trial.record.files.get(name):
        raise FileError("does not match the sha256 in trial.json: changed or damaged after it was written")
    return data


def every_column(trial: Trial) -> pa.Table:
    """The step table of a trial, of ``STEP_COLUMNS``.

    Raises FileError when the table is missing, does not match the sha256 in ``trial.json``, or is none.
    """
    _load_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_table(trial, STEPS_FILE)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _check_size(file)
        _check_types(file.schema_arrow)
        return file.read(columns=list(STEP_COLUMNS), use_threads=False)
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise _no_table(error) from error


@dataclass
class WindowSums:
    """Of the steps of one window: nanoseconds of each rank, and of each step's slowest rank; samples of all ranks."""

    ranks_ns: dict[int, int] = field(default_factory=dict)
    slowest_ns: int = 0
    samples: int = 0


def window_sums(trial: Trial) -> dict[int, WindowSums]:
    """Sums over the step table of a trial, by window.

    Raises FileError when the table is missing, does not match the sha256 in ``trial.json``, or is none.
    """
    _load_pyarrow()
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = read_table(trial, STEPS_FILE)
    sums: dict[int, WindowSums] = {}
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        _check_types(file.schema_arrow)
        spans = [_span(file.metadata.row_group(group)) for group in range(file.metadata.num_row_groups)]
        if _check_size(file) < (steps := 1 + max((high for _, _, high in spans), default=-1)):
            raise FileError(f"not a step table: {count(steps, 'step')} in {count(file.metadata.num_rows, 'row')}")
        slowest, window_of = np.zeros(steps, np.int64), np.full(steps, -1, np.int64)
        for group, (rank, low, high) in enumerate(spans):
            table = file.read_row_group(group, columns=["window", "duration_ns", "samples"], use_threads=False)
            if any(column.null_count for column in table.columns):
                raise FileError("contains a step without a duration, window or samples")
            windows, durations, samples = map(_values, table.columns)
            part = slice(low, high + 1)
            slowest[part], window_of[part] = np.maximum(slowest[part], durations), windows
            for window in np.unique(windows).tolist():
                total = sums.setdefault(window, WindowSums())
                total.ranks_ns[rank] = total.ranks_ns.get(rank, 0) + int(durations[windows == window].sum())
                total.samples += int(samples[windows == window].sum())
        for window, total in sums.items():
            total.slowest_ns = int(slowest[window_of == window].sum())
    except FileError:
        raise
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, OverflowError) as error:
        raise _no_table(error) from error
    return sums


def quantiles(values: Durations) -> tuple[float, ...]:
    """Order statistics at ``QUANTILES`` in seconds; sorts ``values`` (1-D) in part and in place."""
    ranks = [round(q * (len(values) - 1)) for q in QUANTILES]
    values.partition(sorted(set(ranks)))
    return tuple(float(values[rank]) / 1e9 for rank in ranks)


def _windows(record: TrialRecord, kind: WindowKind) -> list[TrialWindow]:
    return [window for window in record.windows if window.kind is kind and window.steps > 0]


def _decode(
    data: bytes, workers: int, timed: Sequence[TrialWindow], unsynchronized: Sequence[TrialWindow]
) -> StepTable:
    _load_pyarrow()
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        rows = _check_size(file)
        _check_types(file.schema_arrow)
        steps, own_steps = sum(window.steps for window in timed), sum(window.steps for window in unsynchronized)
        if workers * (steps + own_steps) > rows:
            raise FileError(
                f"holds {count(rows, 'row')}, {count(workers, 'rank')} of {count(steps + own_steps, 'step')} have more"
            )
        first: Durations = np.empty((workers, steps), dtype=np.int64)
        second: Durations = np.empty((workers, own_steps), dtype=np.int64)
        expected = 0
        for rank, start, durations in _ranks(file):
            if rank != expected or rank >= workers:
                raise FileError(f"contains rank {rank}, expected rank {expected} of {workers}")
            _pick(first[rank], start, durations, timed, rank)
            _pick(second[rank], start, durations, unsynchronized, rank)
            expected += 1
    except (pa.ArrowException, OSError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise _no_table(error) from error
    if expected != workers:
        raise FileError(f"contains {expected} of {count(workers, 'rank')}")
    for values in (first, second):
        if values.size and values.min() <= 0:
            raise FileError("contains a duration that is not positive")
    return StepTable(first, second if unsynchronized else None, rows)


def _no_table(error: Exception) -> FileError:
    return FileError(f"not a step table: {(str(error).splitlines() or [type(error).__name__])[0][:200]}")


def _check_size(file: Any) -> int:
    rows = int(file.metadata.num_rows)
    if rows > MAX_ROWS:
        raise FileError(f"{rows} rows; the limit is {MAX_ROWS} per trial")
    return rows


def _check_types(schema: Any) -> None:
    for name, wanted in (("rank", "int32"), ("step", "int32"), ("duration_ns", "int64")):
        index = schema.get_field_index(name)
        actual = "missing" if index < 0 else str(schema.field(index).type)
        if actual != wanted:
            raise FileError(f"not a step table: column {name} is {actual}, expected {wanted}")


def _ranks(file: Any) -> Iterator[tuple[int, int, Durations]]:
    """(rank, first step, durations) of each rank whose steps count up by one, in the order of the file."""
    import numpy as np

    parts: list[Durations] = []
    rank, start, following = -1, 0, 0
    for group in range(file.metadata.num_row_groups):
        durations, low, high = _span(file.metadata.row_group(group))
        column = file.read_row_group(group, columns=["duration_ns"], use_threads=False).column(0)
        if column.null_count:
            raise FileError("contains a step without a duration")
        values = _values(column)
        if durations != rank:
            if parts:
                yield rank, start, np.concatenate(parts) if len(parts) > 1 else parts[0]
            parts, rank, start = [], durations, low
        elif low != following:
            raise FileError(f"rank {rank} jumps from step {following - 1} to {low}")
        parts.append(values)
        following = high + 1
    if parts:
        yield rank, start, np.concatenate(parts) if len(parts) > 1 else parts[0]


def _values(column: Any) -> NDArray[Any]:
    """A column without nulls; pyarrow's own ``to_numpy`` imports pandas, in two thirds of a second."""
    import numpy as np

    return np.from_dlpack(column.combine_chunks())


def _span(group: Any) -> tuple[int, int, int]:
    """(rank, first step, last step) of a row group, from its statistics: no column is decoded for them."""
    limits = {}
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema in ("rank", "step"):
            if not column.is_stats_set or not column.statistics.has_min_max:
                raise FileError(f"column {column.path_in_schema} has no statistics")
            limits[column.path_in_schema] = int(column.statistics.min), int(column.statistics.max)
    (rank, last_rank), (low, high) = limits["rank"], limits["step"]
    if rank != last_rank or high - low + 1 != group.num_rows:
        raise FileError(f"a row group mixes ranks {rank} to {last_rank}, or misses steps between {low} and {high}")
    return rank, low, high


def _pick(into: Durations, start: int, durations: Durations, windows: Sequence[TrialWindow], rank: int) -> None:
    at = 0
    for window in windows:
        begin = window.first_step - start
        if begin < 0 or begin + window.steps > len(durations):
            raise FileError(f"rank {rank} is missing steps of window {window.index}")
        into[at : at + window.steps] = durations[begin : begin + window.steps]
        at += window.steps


@cache
def _load_pyarrow() -> None:
    """Import pyarrow with the allocator of the system.

    Arrow's own reserves 1 GiB of addresses before the first byte, and limits on addresses (``ulimit -v``, batch
    systems) count them. The variable is read once, and put back: processes that train inherit the environment.
    """
    chosen = os.environ.get(_POOL)
    os.environ.setdefault(_POOL, "system")
    try:
        import pyarrow

        pyarrow.default_memory_pool()
    finally:
        if chosen is None:
            del os.environ[_POOL]
