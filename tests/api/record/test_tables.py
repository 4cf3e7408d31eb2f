import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.features.accuracy.facts import Evaluation, encode_evaluations
from scalecurve_api.record.journal import JournalError, StepRow
from scalecurve_api.record.tables import STEP_COLUMNS, encode_steps
from tests.api.rank_records import journal_of, row, steps_of

INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
journals = st.dictionaries(
    st.integers(0, 7),
    st.lists(
        st.builds(StepRow, INT32, INT32, INT64, INT64, INT32, st.floats(width=32)),
        max_size=8,
        unique_by=lambda r: r.step,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(journals)
def test_every_row_comes_back_sorted(written: dict[int, list[StepRow]]) -> None:
    table = pq.read_table(pa.BufferReader(encode_steps({rank: journal_of(rank, r) for rank, r in written.items()})))
    assert tuple(table.column_names) == STEP_COLUMNS
    expected = [
        (rank, *each[:-1], None if math.isnan(each.loss) else each.loss)
        for rank in sorted(written)
        for each in sorted(written[rank])
    ]
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected


def test_the_schema_is_the_contract() -> None:
    schema = pq.read_schema(pa.BufferReader(encode_steps({0: steps_of(0)})))
    assert {field.name: (str(field.type), field.nullable) for field in schema} == {
        "rank": ("int32", False),
        "step": ("int32", False),
        "window": ("int32", False),
        "start_ns": ("int64", False),
        "duration_ns": ("int64", False),
        "samples": ("int32", False),
        "loss": ("float", True),
    }


def test_the_same_rows_give_the_same_bytes() -> None:
    forward = {rank: steps_of(rank) for rank in range(3)}
    backward = {rank: steps_of(rank) for rank in (2, 1, 0)}
    assert encode_steps(forward) == encode_steps(backward)


def test_a_rank_has_row_groups_of_its_own() -> None:
    file = pq.ParquetFile(pa.BufferReader(encode_steps({0: steps_of(0), 3: steps_of(3)})))
    ranks = []
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(0).statistics
        assert statistics.min == statistics.max
        ranks.append(statistics.min)
    assert ranks == [0, 3]


def test_rows_out_of_order_and_a_torn_end() -> None:
    data = journal_of(1, [row(2), row(0), row(1)]) + b"torn"
    table = pq.read_table(pa.BufferReader(encode_steps({1: data})))
    assert table.column("step").to_pylist() == [0, 1, 2]


def test_a_rank_that_was_killed_before_its_first_step() -> None:
    table = pq.read_table(pa.BufferReader(encode_steps({0: journal_of(0, []), 1: steps_of(1)})))
    assert set(table.column("rank").to_pylist()) == {1}
    assert pq.read_table(pa.BufferReader(encode_steps({0: journal_of(0, [])}))).num_rows == 0


def test_a_foreign_journal_is_named() -> None:
    with pytest.raises(JournalError, match="journal of rank 3: not a step journal"):
        encode_steps({3: b"x" * 64})


def test_evaluations_in_their_order() -> None:
    evaluations = [
        Evaluation(epoch=1, step=10, wall_s=1.5, train_loss=2.0, loss=1.9, accuracy=0.4),
        Evaluation(epoch=2, step=20, wall_s=3.0, train_loss=1.0, loss=0.9, accuracy=0.8),
    ]
    table = pq.read_table(pa.BufferReader(encode_evaluations(evaluations)))
    assert table.to_pylist() == [each.model_dump() for each in evaluations]
    assert encode_evaluations(evaluations) == encode_evaluations(evaluations)
