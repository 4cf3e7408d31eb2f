"""The import graph of each package: its boxes, floors and circles, held against the limits of docs/design.md.

A box is a module or a subpackage directly inside a package; an arrow is an import of one box by another, wherever it
stands in the file. Floors are the longest chain of arrows. A circle is a strongly connected set of modules.

    python tools/lint/structure.py            # the table, and exit 1 where a limit is passed
    python tools/lint/structure.py -v         # with what stands on each floor
"""

import argparse
import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST_MODULE = 350  # lines
Graph = dict[str, set[str]]


@dataclass(frozen=True)
class Limit:
    """How large a package's picture may be."""

    path: str
    boxes: int
    floors: int


LIMITS = [
    Limit("api/scalecurve_api", 14, 8),
    Limit("operator/scalecurve_operator", 12, 8),
    Limit("worker/scalecurve_worker", 14, 8),
    Limit("local/scalecurve_local", 14, 8),
    Limit("analysis/scalecurve", 14, 8),
    Limit("analysis/scalecurve_models", 14, 8),
]


def modules_of(folder: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name, which begins with the package's own."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Every absolute dotted name that a file imports, `from a import b` as both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_graph(modules: dict[str, Path]) -> Graph:
    """Which module of the package imports which other."""
    graph: Graph = {name: set() for name in modules}
    for name, path in modules.items():
        for imported in imported_names(ast.parse(path.read_text())):
            target = imported if imported in modules else imported.rpartition(".")[0]
            if target in modules and target != name:
                graph[name].add(target)
    return graph


def box_graph(graph: Graph, package: str) -> Graph:
    """The graph of the package's direct children; its own `__init__` and `__main__` are no boxes."""
    boxes: Graph = {}
    for name, targets in graph.items():
        if name in (package, f"{package}.__main__"):
            continue
        box = name.split(".")[1]
        boxes.setdefault(box, set()).update(
            other for target in targets if target != package and (other := target.split(".")[1]) != box
        )
    return boxes


def circles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one node (Tarjan, 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in order:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == order[node]:
            component = [stack.pop()]
            while component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                result.append(sorted(component))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return result


def floors(graph: Graph) -> dict[str, int]:
    """The floor of each node, from 1: one above the highest that it imports. Nodes in a circle share its floor."""
    group = {node: node for node in graph}
    for circle in circles(graph):
        group.update(dict.fromkeys(circle, circle[0]))
    members: dict[str, set[str]] = {}
    for node, leader in group.items():
        members.setdefault(leader, set()).update(group[target] for target in graph[node])
    height: dict[str, int] = {}

    def floor(leader: str) -> int:
        if leader not in height:
            height[leader] = 1 + max((floor(other) for other in members[leader] - {leader}), default=0)
        return height[leader]

    return {node: floor(group[node]) for node in graph}


def problems(limit: Limit, graph: Graph, modules: dict[str, Path]) -> Iterable[str]:
    """What passes a limit."""
    boxes = box_graph(graph, limit.path.split("/")[-1])
    if len(boxes) > limit.boxes:
        yield f"{limit.path}: {len(boxes)} boxes, at most {limit.boxes} allowed"
    if (top := max(floors(boxes).values(), default=0)) > limit.floors:
        yield f"{limit.path}: {top} floors, at most {limit.floors} allowed"
    for circle in circles(boxes) + circles(graph):
        yield f"{limit.path}: these import each other in a circle: {', '.join(circle)}"
    for path in modules.values():
        if (lines := len(path.read_text().splitlines())) > LARGEST_MODULE:
            yield f"{path.relative_to(ROOT)}: {lines} lines, at most {LARGEST_MODULE} allowed"


def main() -> int:
    """Print the table and what passes its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--verbose", action="store_true", help="show what stands on each floor")
    arguments = parser.parse_args()
    failed: list[str] = []
    print(f"{'package':<32}{'boxes':>8}{'floors':>8}{'circles':>9}{'largest module':>16}")
    for limit in LIMITS:
        modules = modules_of(ROOT / limit.path)
        if not modules:
            continue
        graph = module_graph(modules)
        boxes = box_graph(graph, limit.path.split("/")[-1])
        levels = floors(boxes)
        largest = max(len(path.read_text().splitlines()) for path in modules.values())
        count = len(circles(graph)) + len(circles(boxes))
        print(
            f"{limit.path:<32}{len(boxes):>5}/{limit.boxes:<2}{max(levels.values()):>5}/{limit.floors:<2}{count:>9}{largest:>16}"
        )
        if arguments.verbose:
            for level in sorted(set(levels.values()), reverse=True):
                print(f"    {level}: {' '.join(sorted(box for box in boxes if levels[box] == level))}")
        failed += problems(limit, graph, modules)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
