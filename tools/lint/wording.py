"""Texts of the product that have a word of the glossary's left column in CONTRIBUTING.md, or a British spelling.

python tools/lint/wording.py            # exit 1 where CEILING is not what there is
python tools/lint/wording.py --list     # every one, with its place and the word

Every string with a space is read but docstrings that nobody is shown: messages, help, notes, captions, descriptions of
fields. `tests/api/test_wording.py` holds what validation prints to the same words, without a ceiling.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("api", "operator", "worker", "local", "analysis")
CEILING = 9
"""Texts with such a word today; it only falls. Most are of points that a fit leaves out, as tables state it."""
SENSES = {"whole": "whole (?!numbers?)"}
"""Words of the glossary with a sense that is right."""
_BRITISH = (
    r"\w*(?:neighbour|colour|behaviour|favour|honour|labelled|modelled)\w*|"
    r"\w{3,}(?:alis|imis|onis|aris)(?:e|ed|es|ing)"
)


def glossary() -> list[str]:
    """Return the words not to use, from the rows that state them without a condition in parentheses."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| not | but |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    words = [word for cell in cells if "(" not in cell for word in re.split(r", | / ", cell.replace(" X", ""))]
    return [*words, "left out", "leaves out", "goes with", "foretold"]


def pattern() -> re.Pattern[str]:
    """Return what matches any of the words."""
    words = "|".join(SENSES.get(word, word) for word in glossary())
    return re.compile(rf"\b(?:{words}|{_BRITISH})\b", re.IGNORECASE)


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string with a space that is no statement by itself, as docstrings are."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    for node in constants:
        if isinstance(node.value, str) and " " in node.value.strip() and id(node) not in statements:
            yield node.lineno, node.value


def main() -> int:
    """Print what is refused."""
    refused, places = pattern(), list[str]()
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
                if found := refused.search(text):
                    places.append(f"{path.relative_to(ROOT)}:{line}: {found[0]!r} in: {' '.join(text.split())}")
    if "--list" in sys.argv:
        print("\n".join(places))
    if len(places) == CEILING:
        return 0
    print("\n".join(places if len(places) > CEILING else ()))
    print(f"{len(places)} texts have a word that CONTRIBUTING.md replaces; CEILING is {CEILING}, and only falls")
    return 1


if __name__ == "__main__":
    sys.exit(main())
