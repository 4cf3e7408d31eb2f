"""torchtitan's pages of benchmarks: Llama 3.1 on H100 and H200, one figure a row.

A figure whose column says that it is of one GPU (`TPS/GPU`) has its unit; `tokens/sec` alone does not say whose it is.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from scalecurve.hardware.devices import device_name, devices
from scalecurve_corpus.copies import without_copies
from scalecurve_corpus.schema import TOKENS, Corpus, CorpusError, PublishedPoint, PublishedRun
from tools.corpus.imported import Imported
from tools.corpus.published_page import PageTable, PublishedPage, number_in, page_tables, published_pages

NAME = "torchtitan-benchmarks"
_URL = "https://github.com/pytorch/torchtitan"
_FOLDER = "benchmarks"
_PER_GPU, _SHARED = "TPS/GPU", "tokens/sec"
_MODEL = re.compile(r"(Llama ?3(?:\.1)?) (\d+)[Bb]\b", re.IGNORECASE)
_GPUS = re.compile(r"\b(\d+) (?:GPUs|[HB]\d+s)\b")
_DEVICE = re.compile(r"(\d+) (NVIDIA \w+) GPUs")
_MEMORY = re.compile(r"equipped with (\d+)GB (\w+)")
_TITLE = re.compile(r"\*\*([^*]+)\*\*")
_LOCAL = re.compile(r"local[ _]batch[ _]size[ =](\d+)", re.IGNORECASE)
_GLOBAL = re.compile(r"global batch size (\d+)", re.IGNORECASE)
_NOT_FOUND = "model, GPUs or batch not stated beside it"


def import_torchtitan(path: Path, name: str = NAME) -> Imported:
    """Read the tables of all pages.

    Args:
        path: A checkout of torchtitan, a bare repository of it, or one page.
        name: Name of the source.

    Returns:
        A point for each figure, in the order of the pages.

    Raises:
        CorpusError: a page cannot be read, or none has a table of throughput.
    """
    source, pages = published_pages(path, _FOLDER, name, "torchtitan, benchmarks", _URL)
    points, notes = [], []
    for page in pages:
        for line, row, table in _rows(page):
            found = list(_points(source.name, page, table, row))
            points += found
            notes += [] if found else [f"{page.name}, line {line}: {_NOT_FOUND}; skipped"]
    if not points:
        raise CorpusError(f"{path}: no table with a column {_PER_GPU}; expected {_FOLDER}/*.md of {_URL}")
    unique, copies = without_copies(points)
    return Imported(Corpus((source,), tuple(unique)), (*notes, *copies), len(points))


def _rows(page: PublishedPage) -> Iterator[tuple[int, Mapping[str, str], PageTable]]:
    for table in page_tables(page):
        for line, row in table.rows:
            if any(column == _PER_GPU or _SHARED in column for column in row):
                yield line, row, table


def _points(source: str, page: PublishedPage, table: PageTable, row: Mapping[str, str]) -> Iterator[PublishedPoint]:
    """A point for each column with a rate; none where what it was measured on is not stated."""
    about = f"{table.heading}. {table.caption}"
    model = _MODEL.search(about) or _MODEL.search(page.text)
    hardware, local = _DEVICE.search(page.text), _LOCAL.search(about) or _LOCAL.search(page.text)
    workers = _workers(about, row, int(hardware[1]) if hardware else 0)
    if model is None or hardware is None or not workers:
        return
    whole = _GLOBAL.search(about)
    columns = list(row)
    length = number_in(row["Sequence Length"]) if "Sequence Length" in row else None
    for column in columns:
        rate = number_in(row[column]) if column == _PER_GPU or _SHARED in column else None
        if rate is None:
            continue
        proved, variant = column == _PER_GPU, column.partition(f" {_SHARED}")[0] if _SHARED in column else ""
        first = row[columns[0]]
        technique = ", ".join(filter(None, (f"{columns[0]} {first}" if first.isdecimal() else first, variant)))
        described = f"{about} {technique}"
        yield PublishedPoint(
            source=source,
            submitter=page.name.removesuffix(".md").rpartition("_")[2],
            system=f"{technique} ({_table_name(table, page)})",
            benchmark=f"llama3.1-{model[2]}b",
            device=_device(hardware[2], page),
            nodes=max(1, workers // int(hardware[1])),
            devices_per_node=min(workers, int(hardware[1])),
            workers=workers,
            global_batch=int(whole[1]) if whole else _plain_batch(described, local, workers),
            precision="fp8" if "float8" in f"{described} {_command(page)}".lower() else "bf16",
            software=f"torchtitan; {table.caption if _TITLE.match(table.caption) else table.heading}",
            interconnect="",
            unit=TOKENS if proved else None,
            reason="" if proved else f"{column}: does not say whether it is of one GPU or of all",
            basis="tokens a second and GPU at one step, as the page states" if proved else "",
            runs=(PublishedRun(None, None, rate * workers if proved else None, relative=None if proved else rate),),
            parameters=float(model[2]) * 1e9,
            sequence_length=int(length) if length else None,
        )


def _table_name(table: PageTable, page: PublishedPage) -> str:
    title = _TITLE.match(table.caption)
    month = re.search(r"_(20\d\d)-?(\d\d)_", page.name)
    name = title[1] if title else table.heading
    return f"{name}, {month[1]}-{month[2]}" if month else name


def _workers(about: str, row: Mapping[str, str], per_node: int) -> int:
    if "NUM_NODES" in row:
        return int((number_in(row["NUM_NODES"]) or 0) * per_node)
    return int(match[1]) if (match := _GPUS.search(about)) else 0


def _plain_batch(described: str, local: re.Match[str] | None, workers: int) -> int | None:
    """The batch of all devices where each has its own samples; not stated under tensor, pipeline or context groups."""
    shared = re.search(r"\b(TP|PP|CP|[234]D)\b", described)
    return int(local[1]) * workers if local and not shared else None


def _command(page: PublishedPage) -> str:
    """What the page ran, if it shows a command: a converter named there is of all its rows."""
    return " ".join(re.findall(r"--model\.converters=\S+", page.text))


def _device(stated: str, page: PublishedPage) -> str:
    """The device, with its memory in its name where that is not the memory of the device of that name."""
    name, memory = device_name(stated), _MEMORY.search(page.text)
    known = devices().get(name)
    if memory is None or known is None or known.memory_gb in (None, float(memory[1])):
        return name
    return f"{name}_{memory[1]}GB_{memory[2].upper()}"
