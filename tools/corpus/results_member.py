"""Which files of a results repository are read, and how much: systems, logs of runs, scaling factors, the license."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from scalecurve.bundle.packed import is_safe
from scalecurve.corpus.schema import CorpusError

MOST_MEMBER_BYTES = 32 << 20
MOST_MEMBERS = 20_000
MOST_BYTES = 2 << 30
MOST_ENTRIES = 500_000
"""Files of all kinds in a repository: those of a round are about 27,000."""
_MOST_SKIPPED = 1000

_SYSTEM = re.compile(r"([^/]+)/systems/([^/]+)\.json")
_RESULT = re.compile(r"([^/]+)/results/([^/]+)/([^/]+)/(result_[^/]*\.txt)")
_SCALING = re.compile(r"([^/]+)/results/([^/]+)/([^/]+)/scaling\.json")
_RELEVANT = re.compile(r"/(systems|results)/.*[^/]$")
_LICENSE = re.compile(r"LICENSE(\.md|\.txt)?")


@dataclass(frozen=True)
class ResultFile:
    """A file that is read. ``benchmark`` is empty for a system, ``submitter`` for the license."""

    name: str
    submitter: str
    system: str
    benchmark: str
    data: bytes

    @property
    def is_scaling(self) -> bool:
        """Whether it has the factor of a benchmark's time to train, and is no log."""
        return bool(self.benchmark) and self.name.endswith(".json")


@dataclass
class Selection:
    """What was taken of a repository so far, against the limits; ``skipped`` has other files with the reason."""

    place: str
    entries: int = 0
    members: int = 0
    taken_bytes: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def wanted(self, name: str, inside: str = "") -> str | None:
        """The name of an entry below the repository's root if it is to be read.

        Args:
            name: The entry's path.
            inside: The folder that holds everything, as in archives of hosting services; empty if there is none.

        Raises:
            CorpusError: the repository has more entries than the limit.
        """
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise CorpusError(f"{self.place}: more than {MOST_ENTRIES} files; expected a results repository")
        below = name.removeprefix(f"{inside}/") if inside else name
        if not is_safe(below):
            if _RELEVANT.search(name):
                self.skip(repr(name[:80]), "unsafe name")
            return None
        for known in (below, name):
            if any(form.fullmatch(known) for form in (_SYSTEM, _RESULT, _SCALING, _LICENSE)):
                return known
        return None

    def read(self, name: str, size: int, read: Callable[[], bytes]) -> ResultFile | None:
        """Read a file that is wanted, within the limits.

        Args:
            name: Its name below the root.
            size: Its size, as the repository declares it.
            read: Returns its bytes.

        Raises:
            CorpusError: the files that are wanted are too many, or too large together.
        """
        if size > MOST_MEMBER_BYTES:
            self.skip(name, f"{size} bytes; the limit is {MOST_MEMBER_BYTES}")
            return None
        self.members += 1
        self.taken_bytes += size
        if self.members > MOST_MEMBERS or self.taken_bytes > MOST_BYTES:
            raise CorpusError(
                f"{self.place}: more than {MOST_MEMBERS} results or {MOST_BYTES >> 20} MiB; import it in parts"
            )
        return _member(name, read())

    def skip(self, name: str, why: str) -> None:
        """Note a file that is not read."""
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append((name, why))


def root_folder(names: list[str]) -> str:
    """The one folder that holds every entry of an archive; empty if there is none."""
    roots = {name.partition("/")[0] for name in names}
    return roots.pop() if len(roots) == 1 and all("/" in name for name in names) else ""


def _member(name: str, data: bytes) -> ResultFile:
    if match := _SYSTEM.fullmatch(name):
        return ResultFile(name, match[1], match[2], "", data)
    if match := _RESULT.fullmatch(name) or _SCALING.fullmatch(name):
        return ResultFile(name, match[1], match[2], match[3], data)
    return ResultFile(name, "", "", "", data)
