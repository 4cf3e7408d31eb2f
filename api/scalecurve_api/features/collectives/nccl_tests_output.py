"""The lines of results that programs of nccl-tests print: out of place first, then in place, beside one another."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_TIMES = ("time", "cputime")


class PrintedResult(NamedTuple):
    """One half of a line: its cells by the name of their column; ``kind`` is data type and operation: ``float sum``."""

    size: int
    in_place: bool
    cells: dict[str, str]
    kind: str


def parse_results(lines: Iterable[str]) -> Iterator[PrintedResult]:
    """Yield every result, by the last header before it; versions of nccl-tests differ in their columns."""
    header: list[str] = []
    for line in lines:
        words = line.lstrip("# ").split()
        if line.startswith("#") and words[:2] == ["size", "count"]:
            header = words if any(name in _TIMES for name in words) else []
        elif header and re.match(r"\s*\d+\s+\d+\s+[a-z]", line):
            starts = [at for at, name in enumerate(header) if name in _TIMES]
            for start, end in zip(starts, [*starts[1:], len(header)], strict=True):
                cells = dict(zip(header[start:end], words[start:end], strict=False))
                kind = dict(zip(header[: starts[0]], words, strict=False))
                spelled = " ".join(kind[name] for name in ("type", "redop") if name in kind)
                yield PrintedResult(int(words[0]), start != starts[0], cells, spelled)
