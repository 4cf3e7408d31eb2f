"""Names that say what a thing is: no parameter called by how it was come by, and no class name with two meanings.

python tools/lint/names.py            # exit 1 where there is one
python tools/lint/names.py --count    # how many, by package
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALIKE = frozenset({"ScaleCurveCallback"})  # what users write is the same for every framework
PRODUCT = [
    "api/scalecurve_api",
    "operator/scalecurve_kube",
    "operator/scalecurve_operator",
    "worker/scalecurve_worker",
    "local/scalecurve_local",
    "analysis/scalecurve",
    "analysis/scalecurve_corpus",
    "analysis/scalecurve_importing",
    "analysis/scalecurve_models",
    "analysis/scalecurve_timelines",
    "tools",
]
VAGUE = frozenset(
    """found asked given said seen whole each own known wanted it thing what one other_one""".split()  # noqa: SIM905
)  # participles and pronouns: they tell how the value was come by, not what it is


def parameters(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every parameter of every function; lambdas, a line long, may do as they like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            yield from ((node.lineno, argument.arg) for argument in named if argument)


def top_level_classes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every class that a module offers; a private one is its module's own affair."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, node.name


def main() -> int:
    """Print what is refused."""
    classes: dict[str, list[tuple[str, str]]] = defaultdict(list)  # folder and place
    refused: list[tuple[str, str]] = []
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            place = path.relative_to(ROOT)
            for line, name in parameters(tree):
                if name in VAGUE:
                    refused.append((folder, f"{place}:{line}: parameter `{name}`: name it for what it is"))
            for line, name in top_level_classes(tree):
                if name in ALIKE:
                    continue
                classes[name].append((folder, f"{place}:{line}"))
    for name, places in sorted(classes.items()):
        for folder, where in places if len(places) > 1 else []:
            others = ", ".join(other for _, other in places if other != where)
            refused.append((folder, f"{where}: class `{name}` means something else at {others}"))
    if "--count" in sys.argv[1:]:
        for folder, count in Counter(folder for folder, _ in refused).most_common():
            print(f"{count:5} {folder}")
    else:
        print("\n".join(text for _, text in refused), end="\n" if refused else "")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
