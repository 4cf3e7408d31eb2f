"""Sentences of the product that tests compare: each makes a change of wording red, and on a cluster only after minutes.

python tools/lint/sentences.py            # exit 1 if a folder has more than its ceiling, or fewer: then lower that
python tools/lint/sentences.py --list     # every one, with its place

A test asserts a code, a field and a value; `tests/api/wording.txt` has the sentences, written by `make fix`.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CEILINGS = {
    "tests": 74,
    "tests/analysis": 384,
    "tests/api": 269,
    "tests/chart": 2,
    "tests/cli": 124,
    "tests/cluster": 79,
    "tests/images": 20,
    "tests/kube": 13,
    "tests/local": 110,
    "tests/models": 321,
    "tests/nodes": 23,
    "tests/operator": 72,
    "tests/prometheus": 1,
    "tests/worker": 336,
}
"""Folder → sentences that its tests compare today. A ceiling only falls."""
_WORDS = re.compile(r"[A-Za-z']{2,}")
_LEAST_WORDS = 3


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each literal of three words or more that a test compares; not of commands and blocks of text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            tables = [value for call in node.decorator_list if isinstance(call, ast.Call) for value in call.args[1:]]
            asserted = [inner.test for inner in ast.walk(node) if isinstance(inner, ast.Assert)]
            keywords = [inner for inner in ast.walk(node) if isinstance(inner, ast.keyword)]
            matched = [keyword.value for keyword in keywords if keyword.arg == "match"]
            for part in (*tables, *asserted, *matched):
                yield from _literals(part)


def _literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            text = inner.value
            if (
                "\n" not in text
                and " " in text
                and " --" not in f" {text}"
                and len(_WORDS.findall(text)) >= _LEAST_WORDS
            ):
                yield inner.lineno, text


def folder_of(path: Path) -> str:
    """The package's folder of tests, `tests` for the files of the root."""
    parts = path.relative_to(ROOT).parts
    return f"tests/{parts[1]}" if len(parts) > 2 else "tests"


def main() -> int:
    """Compare every folder with its ceiling."""
    counts = dict.fromkeys(CEILINGS, 0)
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        for line, text in sentences(ast.parse(path.read_text(encoding="utf-8"))):
            counts[folder_of(path)] = counts.get(folder_of(path), 0) + 1
            if "--list" in sys.argv:
                print(f"{path.relative_to(ROOT)}:{line}: {text}")
    status = 0
    for folder, count in sorted(counts.items()):
        ceiling = CEILINGS.get(folder, 0)
        if count > ceiling:
            print(f"{folder}: tests compare {count} sentences, at most {ceiling}: assert a code, a field or a number")
            status = 1
        elif count < ceiling:
            print(f"{folder}: tests compare {count} sentences; lower its ceiling from {ceiling} in {__file__}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
