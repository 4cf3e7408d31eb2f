"""A corpus as one Parquet file: a row for each run, its point's fields repeated; sources are in the file's metadata."""

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scalecurve_api.files import read_regular, write_atomic
from scalecurve_corpus.schema import Corpus, CorpusError, PublishedPoint, PublishedRun, PublishedSource

SUFFIX = ".corpus"
SHIPPED = "published.corpus"
_VERSION = 1
_VERSION_KEY, _SOURCES_KEY = b"scalecurve.corpus", b"scalecurve.sources"
_MAX_BYTES = 256 << 20
_MAX_RUNS = 1_000_000
_POINT = pa.schema(
    [
        pa.field("point", pa.int32(), nullable=False),
        *(
            pa.field(name, pa.string(), nullable=False)
            for name in ("source", "submitter", "system", "benchmark", "device")
        ),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("nodes", "devices_per_node", "workers")),
        pa.field("global_batch", pa.int64()),
        pa.field("precision", pa.string()),
        *(pa.field(name, pa.string(), nullable=False) for name in ("software", "interconnect")),
        pa.field("unit", pa.string()),
        *(pa.field(name, pa.string(), nullable=False) for name in ("reason", "basis")),
        pa.field("aliases", pa.list_(pa.string()), nullable=False),
        pa.field("parameters", pa.float64()),
        pa.field("sequence_length", pa.int64()),
        pa.field("mfu", pa.float64()),
        pa.field("scaling", pa.float64()),
    ]
)
_RUN = pa.schema(
    [
        *(
            pa.field(name, pa.float64())
            for name in ("started_at", "minutes", "rate", "relative", "progress", "resolution")
        ),
        pa.field("step_s", pa.list_(pa.float64()), nullable=False),
    ]
)
_SCHEMA = pa.schema([*_POINT, *_RUN])
_RUN_FIELDS = frozenset(_RUN.names)


def write_corpus(corpus: Corpus, path: Path) -> None:
    """Write a corpus; the same content gives the same bytes.

    Args:
        corpus: Every point has at least one run.
        path: The file, replaced if it exists.

    Raises:
        CorpusError: the file cannot be written, or a point has no run.
    """
    rows = list(_rows(corpus))
    sources = json.dumps([asdict(source) for source in corpus.sources], sort_keys=True)
    metadata = {_VERSION_KEY: str(_VERSION), _SOURCES_KEY: sources}
    table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata(metadata))
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", compression_level=19, write_page_checksum=True)
    try:
        write_atomic(path, sink.getvalue())
    except OSError as error:
        raise CorpusError(f"{path}: cannot be written: {error.strerror}") from error


def read_corpus(path: Path) -> Corpus:
    """Read a corpus.

    Args:
        path: A file that ``write_corpus`` wrote.

    Raises:
        CorpusError: the file is missing, truncated, not a corpus, or of another version.
    """
    try:
        return _corpus(read_regular(path, _MAX_BYTES), str(path))
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from error


@cache
def load_shipped() -> Corpus:
    """Read the corpus that comes with ScaleCurve; THIRD_PARTY_NOTICES.md names its sources."""
    data = (files("scalecurve_corpus") / "data" / SHIPPED).read_bytes()
    return _corpus(data, SHIPPED)


def _rows(corpus: Corpus) -> Iterator[dict[str, Any]]:
    names = [field.name for field in fields(PublishedPoint) if field.name != "runs"]
    for number, point in enumerate(corpus.points):
        if not point.runs:
            raise CorpusError(f"points: {point.submitter}/{point.system}/{point.benchmark}: has no run")
        shared = {name: getattr(point, name) for name in names}
        for run in point.runs:
            yield {
                "point": number,
                **shared,
                **{field.name: getattr(run, field.name) for field in fields(PublishedRun)},
            }


def _corpus(data: bytes, place: str) -> Corpus:
    try:
        file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
        metadata = file.schema_arrow.metadata or {}
        _check(file, metadata, place)
        sources = _sources(metadata[_SOURCES_KEY])
        table = file.read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{place}: truncated, damaged or not a corpus; copy or import it again") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, CorpusError):
            raise
        raise CorpusError(f"{place}: sources: cannot be read; copy or import it again") from error
    return Corpus(sources, tuple(_points(table)))


def _check(file: pq.ParquetFile, metadata: dict[bytes, bytes], place: str) -> None:
    if _VERSION_KEY not in metadata:
        raise CorpusError(f"{place}: is Parquet but not a corpus; expected a file of `scalecurve corpus add`")
    if (version := metadata[_VERSION_KEY].decode("utf-8", "replace")) != str(_VERSION):
        raise CorpusError(f"{place}: version {version[:20]!r} of the corpus; this ScaleCurve reads {_VERSION}")
    if not file.schema_arrow.equals(_SCHEMA):
        raise CorpusError(f"{place}: columns differ from those of a corpus; copy or import it again")
    if (rows := file.metadata.num_rows) > _MAX_RUNS:
        raise CorpusError(f"{place}: {rows} runs; a corpus has at most {_MAX_RUNS}")


def _sources(text: bytes) -> tuple[PublishedSource, ...]:
    sources = tuple(PublishedSource(**source) for source in json.loads(text))
    if not all(isinstance(value, str) for source in sources for value in vars(source).values()):
        raise TypeError("a field that is no text")
    return sources


def _points(rows: list[dict[str, Any]]) -> Iterator[PublishedPoint]:
    for _, group in groupby(rows, key=lambda row: row["point"]):
        members = list(group)
        shared = {name: value for name, value in members[0].items() if name not in _RUN_FIELDS | {"point"}}
        runs = tuple(_run(row) for row in members)
        yield PublishedPoint(**{**shared, "aliases": tuple(shared["aliases"])}, runs=runs)


def _run(row: dict[str, Any]) -> PublishedRun:
    return PublishedRun(**{**{name: row[name] for name in _RUN.names}, "step_s": tuple(row["step_s"])})
