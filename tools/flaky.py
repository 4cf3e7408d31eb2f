"""Hold the ledger of flaky tests, `tests/flaky.toml`, in order: what is open is mended soon, or `make check` is red.

    python -m tools.flaky

A flake is a test that failed in the gate and passed when it ran again, alone; `tools.ci_again` prints its entry. It has
a defect, or has found one. The commit that mends it closes the entry, which stays for whoever meets the class again.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tools.landings import Landing, history_is_complete, is_ancestor, read_landings
from tools.ledger import ROOT, LedgerEntry, LedgerError, read_entries

FILE = ROOT / "tests/flaky.toml"
MOST_OPEN = 8
SEEN_TOO_OFTEN = 3
LANDINGS_TO_MEND = 3
FlakeClass = Literal[
    "aimed-kill",  # a signal aimed by time or by a poll
    "hypothesis",
    "impatient-absence",  # that nothing is left, asked once
    "machine-fact",  # cores, clocks, globals, network
    "measured-time",  # a measured time is compared with a constant
    "memory",
    "port",
    "short-wait",  # a wait for less than the machine may need, or none
    "sleep-as-event",
    "statistics",
    "tight-deadline",  # of the product, which the good path must meet too
    "two-measurements",  # that must agree
    "unknown",
]


class Flake(LedgerEntry):
    """A test that failed once and passed alone."""

    test: Annotated[str, Field(pattern=r"^tests/[\w/]+\.py(::\w+)+(\[.*\])?$")]
    landing: Annotated[int, Field(ge=1)]
    """The last landing when it was first seen."""
    seen: Annotated[int, Field(ge=1)]
    said: str
    kind: Annotated[FlakeClass, Field(alias="class")]
    mended: Annotated[str, Field(pattern=r"^([0-9a-f]{40})?$")]
    """The commit; empty while it is open."""


def function_exists(test: str) -> bool:
    """Whether the file of a test defines its function."""
    file, *names = test.partition("[")[0].split("::")
    if not (ROOT / file).is_file():
        return False
    body: Sequence[ast.stmt] = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    for name in names:
        named = [node for node in body if getattr(node, "name", None) == name]
        if not named:
            return False
        body = getattr(named[0], "body", [])
    return True


def problems(flakes: Sequence[Flake], landings: Sequence[Landing]) -> Iterator[str]:
    """What is out of order, a line each."""
    now = landings[-1].number
    still_open = [flake for flake in flakes if not flake.mended]
    if len(still_open) > MOST_OPEN:
        yield f"{len(still_open)} entries are open, allowed: {MOST_OPEN}; mend some before anything else"
    for flake in flakes:
        if not function_exists(flake.test):
            yield f"{flake.test}: no such test; remove the entry, or follow the test's new name"
        if flake.landing > now:
            yield f"{flake.test}: landing: got {flake.landing}, allowed: 1 to {now}, as in .ci/landings"
        if flake.mended and history_is_complete() and not is_ancestor(flake.mended):
            yield f"{flake.test}: mended: got {flake.mended}, allowed: a commit before HEAD, or nothing"
    for flake in still_open:
        if flake.seen >= SEEN_TOO_OFTEN:
            yield f"{flake.test}: seen {flake.seen} times and still open, allowed: {SEEN_TOO_OFTEN - 1}; mend it now"
        if now - flake.landing > LANDINGS_TO_MEND:
            yield f"{flake.test}: open for {now - flake.landing} landings, allowed: {LANDINGS_TO_MEND}; mend it now"


def entry_of(test: str, message: str) -> str:
    """The entry for a flake that was just seen, to be pasted; for a known one, in place of its old entry."""
    known = next((flake for flake in read_entries(FILE, "flake", Flake) if flake.test == test), None)
    fields = {
        "test": test,
        "landing": known.landing if known and not known.mended else read_landings()[-1].number,
        "seen": known.seen + 1 if known else 1,
        "said": re.sub(r"\s+", " ", message).strip()[:200],
        "class": known.kind if known else "unknown",
        "mended": "",
    }
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "\n".join(["[[flake]]", *lines])


def main(file: Path = FILE) -> int:
    """Name what is out of order; return 1 if something is."""
    try:
        found = [f"tests/flaky.toml: {text}" for text in problems(read_entries(file, "flake", Flake), read_landings())]
    except (LedgerError, ValueError) as error:
        found = [str(error)]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
