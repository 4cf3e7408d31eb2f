"""Lines as the program printed them: without what launchers, pods and log collectors put before each of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_DATE = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIX = re.compile(
    r"\s*(?:"
    r"(?:\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})?\[(?:[\w.@-]+@)?\d+,(?P<tag>\d+)\]<\w+>:"  # mpirun --tag-output
    r"|(?P<label>\d+):(?=\s|$)"  # srun -l
    r"|\[(?P<mpich>\d+)\](?=\s)"  # mpiexec -l
    r"|\[[Rr]ank[ ]?(?P<torch>\d+)\]:?"
    r"|\[(?P<local>[a-z]+\d+)\]:"  # torchrun --tee: role and local rank
    r"|\[(?P<pod>pod/[\w./-]+)\]"  # kubectl logs --prefix
    rf"|\((?P<ray>[^()]*\bpid=\d+[^()]*)\)"  # Ray and SkyPilot
    rf"|\[?{_DATE}\]?(?=\s|$)"
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ [\w.-]+:\d+\]"  # glog
    r"|(?P<host>[A-Za-z](?=[\w.-]*[.-])(?=[\w.-]*\d)[\w.-]*):(?=\s)"  # pdsh
    r")[ \t]?"
)
_RANKS = ("tag", "label", "mpich", "torch")
_SOURCES = ("local", "pod", "ray", "host")
_MOST = 8  # prefixes of a line


@dataclass(frozen=True)
class PrintedLine:
    """A line and the process that printed it: its rank if a prefix states it, else what tells processes apart."""

    number: int
    text: str
    rank: int | None = None
    source: str = ""

    @property
    def process(self) -> str:
        return self.source if self.rank is None else f"rank {self.rank}"


@lru_cache(maxsize=2)
def parse_printed_lines(text: str) -> Sequence[PrintedLine]:
    """Return every line of a text, without colors, dates and prefixes."""
    return tuple(_line(number, line) for number, line in enumerate(text.splitlines(), start=1))


def strip_prefixes(text: str) -> str:
    """Return the text as the programs printed it."""
    return "\n".join(line.text for line in parse_printed_lines(text))


def _line(number: int, line: str) -> PrintedLine:
    text = _ESCAPES.sub("", line)
    rank: int | None = None
    sources: list[str] = []
    for _ in range(_MOST):
        if (match := _PREFIX.match(text)) is None:
            break
        text = text[match.end() :]
        for name, value in match.groupdict().items():
            if value is None:
                continue
            if name in _RANKS:
                rank = int(value[:9])  # the innermost is the world's: others count nodes
            elif name in _SOURCES:
                sources.append(value)
            if name == "ray" and (stated := re.search(r"\brank=(\d{1,9})\b", value)):
                rank = int(stated[1])
    return PrintedLine(number, text, rank, ", ".join(sources))
