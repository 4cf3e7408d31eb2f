"""Journals and rows of facts -> Parquet bytes. Deterministic: the same rows give the same bytes.

pyarrow is imported when a table is encoded, so that reading models and planning needs pydantic alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scalecurve_api.model import Model
from scalecurve_api.record import journal

if TYPE_CHECKING:
    import pyarrow as pa

STEPS_FILE = "steps.parquet"
EVALS_FILE = "evals.parquet"
EXTREMES_FILE = "extremes.parquet"
"""In place of ``STEPS_FILE`` where that did not fit: the same columns, rank -1 is the slowest of each step, -2 the
median (``record.extremes``)."""
STEP_COLUMNS = ("rank", "step", "window", "start_ns", "duration_ns", "samples", "loss")


def encode_steps(journals: Mapping[int, bytes]) -> bytes:
    """``steps.parquet``: rows of every rank's journal, sorted by (rank, step), one row group a rank.

    Raises:
        JournalError: when a journal is foreign.
    """
    import pyarrow as pa

    kinds = {"start_ns": pa.int64(), "duration_ns": pa.int64(), "loss": pa.float32()}
    columns = [pa.field(name, kinds.get(name, pa.int32()), nullable=name == "loss") for name in STEP_COLUMNS]
    schema = pa.schema(columns)
    return _write(schema, [_rank_table(rank, journals[rank], schema) for rank in sorted(journals)])


def encode_rows(schema: pa.Schema, rows: Sequence[Model]) -> bytes:
    """One row a model, in their order: its fields by the names of the columns."""
    import pyarrow as pa

    return _write(schema, [pa.Table.from_pylist([row.model_dump() for row in rows], schema=schema)])


def _rank_table(rank: int, data: bytes, schema: pa.Schema) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    journal.read_rank(data, f"journal of rank {rank}")
    rows = np.frombuffer(journal.body(data), dtype=np.dtype(journal.ROW_DTYPE))
    rows = rows[np.argsort(rows["step"], kind="stable")]
    loss = rows["loss"]
    columns: list[Any] = [pa.array(np.full(len(rows), rank, dtype=np.int32))]
    columns += [pa.array(np.ascontiguousarray(rows[name])) for name in STEP_COLUMNS[1:-1]]
    columns.append(pa.array(np.ascontiguousarray(loss), mask=np.isnan(loss)))
    return pa.Table.from_arrays(columns, schema=schema)


def _write(schema: pa.Schema, groups: Sequence[pa.Table]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Timestamps and steps climb evenly: delta encoding stores them in a few bits each.
    delta = {name: "DELTA_BINARY_PACKED" for name in ("step", "start_ns", "duration_ns") if name in schema.names}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=[name for name in ("rank", "window", "samples") if name in schema.names],
        column_encoding={k: v for k, v in delta.items() if schema.field(k).type in (pa.int32(), pa.int64())} or None,
        write_statistics=True,
    ) as writer:
        for group in groups:
            writer.write_table(group)
    return bytes(sink.getvalue())
