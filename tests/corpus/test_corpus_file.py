"""A corpus comes back as it was written, with the same bytes; any other file is refused in one line."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_corpus import corpus_file
from scalecurve_corpus.corpus_file import read_corpus, write_corpus
from scalecurve_corpus.schema import Corpus, CorpusError, PublishedPoint, PublishedRun, PublishedSource

SOURCE = PublishedSource("round", "A round", "https://example.org/round", "Apache-2.0", "2025-05-30")
POINT = PublishedPoint(
    source="round",
    submitter="Acme",
    system="8xH100",
    benchmark="bert",
    device="H100",
    nodes=1,
    devices_per_node=8,
    workers=8,
    global_batch=256,
    precision=None,
    software="torch 2",
    interconnect="NVLink",
    unit="samples/s",
    reason="",
    basis="step time x global batch",
    runs=(
        PublishedRun(1.7e9, 12.5, 2048.0, (0.125, 0.126), progress=2040.0),
        PublishedRun(None, None, None, relative=3.0),
    ),
    aliases=("Acme/8xH100-POWER",),
)
TABLE_POINT = replace(
    POINT, unit="tokens/s", parameters=7e9, sequence_length=2048, mfu=0.41, runs=(PublishedRun(None, None, 1e5),)
)
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_FIGURE = st.none() | st.floats(0, 1e12)
_RUNS = st.builds(
    PublishedRun,
    _FIGURE,
    _FIGURE,
    _FIGURE,
    st.lists(st.floats(0, 1e9), max_size=4).map(tuple),
    relative=_FIGURE,
    progress=_FIGURE,
    resolution=_FIGURE,
)
_POINTS = st.builds(
    replace,
    st.sampled_from([POINT, TABLE_POINT]),
    submitter=_TEXT,
    unit=st.none() | _TEXT,
    global_batch=st.none() | st.integers(1, 2**40),
    aliases=st.lists(_TEXT, max_size=2).map(tuple),
    runs=st.lists(_RUNS, min_size=1, max_size=3).map(tuple),
)


def refusal(path: Path) -> str:
    with pytest.raises(CorpusError) as caught:
        read_corpus(path)
    return str(caught.value)


@given(points=st.lists(_POINTS, max_size=4))
def test_a_corpus_comes_back(points: list[PublishedPoint], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("corpus") / "a.corpus"
    corpus = Corpus((SOURCE,), tuple(points))
    write_corpus(corpus, path)
    assert read_corpus(path) == corpus


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    corpus = Corpus((SOURCE,), (POINT, TABLE_POINT))
    write_corpus(corpus, tmp_path / "a.corpus")
    write_corpus(read_corpus(tmp_path / "a.corpus"), tmp_path / "b.corpus")
    assert (tmp_path / "a.corpus").read_bytes() == (tmp_path / "b.corpus").read_bytes()


@given(share=st.floats(0, 0.99))
def test_a_truncated_corpus_is_refused(share: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("corpus") / "a.corpus"
    write_corpus(Corpus((SOURCE,), (POINT,)), path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert refusal(path).startswith(f"{path}: ")


def test_damage_to_a_number_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(Corpus((SOURCE,), (POINT,)), path)
    data, column = path.read_bytes(), pq.ParquetFile(path).metadata.row_group(0).column(0)
    at = column.data_page_offset + column.total_compressed_size - 1
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert refusal(path).startswith(f"{path}: ")


@pytest.mark.parametrize("sources", ["[[]]", '[{"name": 1}]', '[{"name": "a"}]', "{", "[" * 100_000])
def test_sources_that_are_none_are_refused(sources: str, tmp_path: Path) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(Corpus((SOURCE,), (POINT,)), path)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"scalecurve.sources": sources}), path)
    assert "sources" in refusal(path)


def test_a_number_of_runs_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(Corpus((SOURCE,), (POINT,)), path)
    monkeypatch.setattr(corpus_file, "_MAX_RUNS", 1)
    assert " 1" in refusal(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text, parquet, version = tmp_path / "text", tmp_path / "parquet", tmp_path / "version"
    text.write_text("not a corpus")
    pq.write_table(pa.table({"a": [1]}), parquet)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"scalecurve.corpus": "99"}), version)
    lines = [refusal(path) for path in (text, parquet, version, tmp_path / "missing")]
    assert all("\n" not in line for line in lines)
    assert "99" in lines[2]


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.corpus"
    write_corpus(Corpus((SOURCE,), (POINT,)), path)
    pq.write_table(pq.read_table(path).drop_columns(["rate"]), path)
    assert str(path) in refusal(path)


def test_a_point_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="Acme/8xH100/bert"):
        write_corpus(Corpus((SOURCE,), (replace(POINT, runs=()),)), tmp_path / "a.corpus")


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ((1.0, 2.0, 3.0, 4.0), 2.5),
        ((1.0, 2.0, None), 2.0),
        ((1.0, None, None), None),
        ((1.0, 2.0), None),
    ],
)
def test_time_to_train_drops_the_fastest_and_the_slowest(
    minutes: tuple[float | None, ...], expected: float | None
) -> None:
    point = replace(POINT, runs=tuple(PublishedRun(None, each, None) for each in minutes))
    assert point.minutes_to_target == expected
