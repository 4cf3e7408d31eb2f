"""llm-foundry's table of training throughput: MPT models of 125M to 70B on A100 and H100, one figure a row.

The table states each rate three times: sequences a second, tokens a second, and tokens a second and GPU. A unit is
proved where the three agree within their rounding, and with them the number of GPUs and the length of a sequence.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from scalecurve.hardware.devices import device_name
from scalecurve_api.text import count
from scalecurve_corpus.copies import without_copies
from scalecurve_corpus.schema import TOKENS, Corpus, CorpusError, PublishedPoint, PublishedRun
from tools.corpus.imported import Imported
from tools.corpus.published_page import page_tables, parse_numbers, published_pages

NAME = "llm-foundry"
_FOLDER = "scripts/train/benchmarking"
_URL = "https://github.com/mosaicml/llm-foundry"
_PER_NODE = 8  # the table does not state it; a node of this platform has eight GPUs
_GPUS, _LENGTH, _TOKENS = "# GPUs", "SeqLen (T)", "Throughput (T/s)"
_NUMBERS = (_GPUS, _LENGTH, "GlobalBatchSize", "Throughput (S/s)", _TOKENS, "Throughput (T/s/GPU)", "NumParams", "MFU")


def import_llm_foundry(path: Path, name: str = NAME) -> Imported:
    """Read the table.

    Args:
        path: A checkout of llm-foundry, a bare repository of it, or the page.
        name: Name of the source.

    Returns:
        A point for each row, in the order of the table.

    Raises:
        CorpusError: the page cannot be read, or has no row with these columns.
    """
    source, pages = published_pages(path, _FOLDER, name, "llm-foundry, training benchmarks", _URL)
    rows = [
        (table.heading, line, row)
        for page in pages
        for table in page_tables(page)
        for line, row in table.rows
        if _TOKENS in row
    ]
    found = [(line, _point(source.name, heading, row)) for heading, line, row in rows]
    points = [point for _, point in found if point is not None]
    if not points:
        raise CorpusError(f"{path}: no row with the columns {', '.join(_NUMBERS)}; expected {_FOLDER}/README.md")
    unique, copies = without_copies(points)
    unread = [f"line {line}: a cell is no number; skipped" for line, point in found if point is None]
    notes = [f"{count(len(rows), 'row')}, one figure each", *unread, *copies]
    return Imported(Corpus((source,), tuple(unique)), tuple(notes), len(points))


def _point(source: str, heading: str, row: Mapping[str, str]) -> PublishedPoint | None:
    numbers = parse_numbers(row, _NUMBERS)
    if numbers is None or min(numbers[:3]) < 1:
        return None
    gpus, length, batch, per_second, tokens, per_gpu, parameters, mfu = numbers
    agree = abs(tokens / gpus - per_gpu) <= 1 and per_second <= tokens / length < per_second + 1
    workers = int(gpus)
    sharding = f"FSDP {row.get('Sharding Strategy', NAME)}, micro-batch {row.get('MicroBatchSize', '?')}"
    recomputed = ", activation checkpointing" if row.get("Activation Checkpointing") == "True" else ""
    return PublishedPoint(
        source=source,
        submitter="MosaicML",
        system=f"{heading}, {sharding}{recomputed}",
        benchmark=f"mpt-{row.get('Model', '')}",
        device=device_name(row.get("GPU", "").replace("_", " ")),
        nodes=math.ceil(workers / _PER_NODE),
        devices_per_node=min(workers, _PER_NODE),
        workers=workers,
        global_batch=int(batch),
        precision=row.get("Precision", "").removeprefix("amp_") or None,
        software=NAME,
        interconnect=heading.partition(" with ")[2],
        unit=TOKENS if agree else None,
        reason="" if agree else "the row's rates by sequence, by token and by GPU contradict each other",
        basis="tokens a second, which the row states three times" if agree else "",
        runs=(PublishedRun(None, None, tokens if agree else None, relative=None if agree else tokens),),
        parameters=parameters,
        sequence_length=int(length),
        mfu=mfu / 100 if 0 < mfu < 100 else None,
    )
