"""Refuse texts of the product that have a word of the glossary's left column in CONTRIBUTING.md.

Every string with a space is read but docstrings that nobody is shown: messages, help, notes, captions, descriptions of
fields. `tests/api/test_wording.py` holds what validation prints to the same words.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("api", "operator", "worker", "local", "analysis")
SENSES = {"whole": "whole (?!numbers?)"}
"""Words of the glossary with a sense that is right."""


def pattern() -> re.Pattern[str]:
    """Return what matches a word of the rows that state them without a condition in parentheses."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| not | but |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    words = [word for cell in cells if "(" not in cell for word in re.split(r", | / ", cell.replace(" X", ""))]
    return re.compile(rf"\b(?:{'|'.join(SENSES.get(word, word) for word in words)})\b", re.IGNORECASE)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string with a space that is no statement by itself, as docstrings are."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if " " in text.strip() and id(node) not in statements:
                yield node.lineno, text


def main() -> int:
    """Print what is refused."""
    refused, status = pattern(), 0
    for path in sorted(path for package in PRODUCT for path in (ROOT / package).rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if match := refused.search(text):
                print(f"{path.relative_to(ROOT)}:{line}: {match[0]!r} in: {' '.join(text.split())}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
