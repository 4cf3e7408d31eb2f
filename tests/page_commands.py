"""The commands that a page tells its reader to type, and the files that it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

PROGRAMS = ("make", "scalecurve", "kubectl", "helm", "python", "torchrun", "podman", "skopeo", "nsenter", "pre-commit")
_FIRST = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/\w+|{'|'.join(PROGRAMS)})(?=\s)|export |\. ")
_NAMED = re.compile(r"# (\S+\.(?:yaml|py))\n")


@dataclass(frozen=True)
class Command:
    """One line to type, joined where it was continued."""

    page: str
    line: int
    text: str


def commands(page: str, text: str) -> Iterator[Command]:
    """Commands of a page: of indented blocks, of fenced ones in no language or a shell's, and whole ones in a sentence.

    A block of Python that uses the library is one too.
    """
    for begin, block, language in _blocks(text):
        if language in ("", "sh", "console"):
            joined = re.sub(r"\s*\\\n\s*", " ", block)
            for offset, line in enumerate(joined.splitlines()):
                typed = re.split(r"\s{2,}#|\s{4,}", line.strip())[0]
                if _FIRST.match(typed):
                    yield from (Command(page, begin + offset, one) for one in _alternatives(typed))
        elif language == "python" and block.startswith("from scalecurve."):
            yield Command(page, begin, f"python - <<'END'\n{block}END")
    prose = re.sub(r"^```.*?^```$|^    [^\n]*$", lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
    for found in re.finditer(r"`([^`]+)`", prose):
        span = " ".join(found[1].split())
        if _FIRST.match(span) and (len(span.split()) > 2 or span.startswith("make ")):
            begin = prose.count("\n", 0, found.start()) + 1
            yield from (Command(page, begin, one) for one in _alternatives(span))


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """First line, content and language of each block; an indented one has no language."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$|(?:^\n|\A)((?:    [^\n]*\n)+)", text, flags=re.M | re.S):
        group = 3 if found[3] else 2
        yield text.count("\n", 0, found.start(group)) + 1, found[group], found[1] or ""


def _alternatives(line: str) -> list[str]:
    """`scalecurve status|cost BUNDLE` is two commands."""
    found = re.search(r"(?<=scalecurve )\w+(?:\|\w+)+", line)
    if not found:
        return [line]
    return [line.replace(found[0], each.strip()) for each in found[0].split("|")]


def files(text: str) -> dict[str, str]:
    """Files that a page shows under their names."""
    return {
        found[1]: block
        for _, block, language in _blocks(text)
        if language and (found := _NAMED.match(block)) is not None
    }
