"""Plurals come from `count`, `plural` and `listed` of `scalecurve_api.text`: a fixed one reads "1 trials".

python tools/lint/plurals.py            # exit 1 for a plural made by hand, or where CEILING is not what there is
python tools/lint/plurals.py --list     # every fixed one, with its place: a number that is never 1 may stay
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("api", "operator", "worker", "local", "analysis")
HOME = ROOT / "api/scalecurve_api/text.py"
CEILING = 111
"""Numbers before a fixed plural today. It only falls."""
_NOUNS = (
    "attempts bundles cores devices epochs errors experiments files GPUs jobs layers machines nodes parameters pods "
    "points processes ranks records repetitions replicas rows runs samples series servers sessions sources steps "
    "trials values windows workers"
)
_FIXED = re.compile(rf" (?:{'|'.join(_NOUNS.split())})\b")


def by_hand(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each ending that a condition chooses: ``'s' if n != 1 else ''``, or ``'s' * (n > 1)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            chosen = {end.value for end in (node.body, node.orelse) if isinstance(end, ast.Constant)}
            if chosen in ({"s", ""}, {"es", ""}, {"is", "are"}, {"was", "were"}):
                yield node.lineno
        elif isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant) and node.left.value == "s":
            yield node.lineno


def fixed(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each value in an f-string that a plural follows."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                follows = isinstance(after, ast.Constant) and _FIXED.match(str(after.value))
                if isinstance(value, ast.FormattedValue) and follows:
                    yield after.lineno


def main() -> int:
    """Print what is refused."""
    status, places = 0, list[str]()
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree, place = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(ROOT)
            places += [f"{place}:{line}" for line in fixed(tree)]
            for line in by_hand(tree) if path != HOME else ():
                print(f"{place}:{line}: a plural made by hand; use count, plural or listed of scalecurve_api.text")
                status = 1
    if "--list" in sys.argv:
        print("\n".join(places))
    if len(places) != CEILING:
        more = len(places) > CEILING
        advice = "use count() of scalecurve_api.text" if more else f"lower CEILING in {Path(__file__).name}"
        print(f"{len(places)} numbers stand before a fixed plural, {CEILING} expected: {advice}")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
