"""Wrap the prose of Markdown pages at 140 characters: list the lines that are longer, or wrap them with `--fix`.

    python tools/lint/pages.py [--fix]

Code, table rows, headings, links that stand alone and pages that are generated stay as they are.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 140
PLACES = ("*.md", "docs/**/*.md", "charts/**/*.md", ".github/**/*.md")
WRITTEN = ("CHANGELOG.md", "docs/evidence/**/*-report/*.md")
"""Pages that a program writes; reports lie beside the packed bundles whose commands the pages print."""
PAGES = sorted(
    {path for place in PLACES for path in ROOT.glob(place)} - {path for place in WRITTEN for path in ROOT.glob(place)}
)
_UNWRAPPABLE = re.compile(r"\||    |\s*\S+$|!?\[|#")
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_STARTS_A_BLOCK = re.compile(r"\s*(?:[-*+#>|]|\d+[.)]|```)(?:\s|$)")


def is_generated(text: str) -> bool:
    """Whether a page says in its first lines that it is generated."""
    return "generated" in text[:200]


def long_lines(text: str) -> Iterator[int]:
    """The numbers, from 0, of lines of prose that are too long."""
    fenced = False
    for number, line in enumerate(text.splitlines()):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and len(line) > WIDTH and not _UNWRAPPABLE.match(line):
            yield number


def wrap(line: str) -> list[str]:
    """Wrap one line of prose or of a list; keep it whole if its continuation would start a block of Markdown."""
    item = _LIST_ITEM.match(line)
    indent = " " * (len(item[0]) if item else len(line) - len(line.lstrip()))
    wrapped = textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return [line] if any(_STARTS_A_BLOCK.match(part) for part in wrapped[1:]) else wrapped


def fix(text: str) -> str:
    """The page with its long lines wrapped."""
    too_long = set(long_lines(text))
    lines = text.splitlines()
    parts = [part for n, line in enumerate(lines) for part in (wrap(line) if n in too_long else [line])]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Exit with 1 if a line is too long, also after `--fix`."""
    status = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if is_generated(text) or "/report/" in str(page):
            continue
        if "--fix" in sys.argv[1:] and list(long_lines(text)):
            text = fix(text)
            page.write_text(text, encoding="utf-8")
        for number in long_lines(text):
            print(f"{page.relative_to(ROOT)}:{number + 1}: longer than {WIDTH} characters; `make fix` wraps it")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
