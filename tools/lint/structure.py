"""The size of each package, held against the limits of docs/design.md; import-linter refuses circles.

A box is a module or a subpackage directly inside a package. Floors are the longest chain of boxes that import each
other, wherever in a file.
"""

import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
LINES, FLOORS = 350, 8
BOXES = {
    "api/scalecurve_api": 15,
    "operator/scalecurve_operator": 12,
    "worker/scalecurve_worker": 14,
    "local/scalecurve_local": 14,
    "analysis/scalecurve": 14,
    "analysis/scalecurve_models": 14,
    "analysis/scalecurve_corpus": 15,
    "analysis/scalecurve_importing": 36,  # a module for each format
    "analysis/scalecurve_timelines": 14,
}


def boxes_and_floors(package: str) -> tuple[int, int]:
    """Count a package's boxes, without its `__main__`, and their floors. Raises `graphlib.CycleError`."""
    graph = grimp.build_graph(package, cache_dir=None)
    for former in _former_names(ROOT) & graph.modules:
        graph.remove_module(former)
    boxes = graph.find_children(package) - {f"{package}.__main__"}
    for box in boxes:
        graph.squash_module(box)
    sorter = TopologicalSorter({box: graph.find_modules_directly_imported_by(box) & boxes - {box} for box in boxes})
    sorter.prepare()
    floors = 0
    while sorter.is_active():
        sorter.done(*sorter.get_ready())
        floors += 1
    return len(boxes), floors


@cache
def _former_names(root: Path) -> set[str]:
    """Name every module that a link names as well: until its file is moved, only the name of the link is imported."""
    links = (link for room in ("api", "analysis", "worker") for link in (root / room).rglob("*") if link.is_symlink())
    files = (file for link in links for file in (link.resolve().rglob("*.py") if link.is_dir() else [link.resolve()]))
    former = (file.relative_to(root).with_suffix("").parts[1:] for file in files)
    return {".".join(parts).removesuffix(".__init__") for parts in former}


def main() -> int:
    """Print the table; exit 1 where a number passes its limit."""
    refused = 0
    for path, limit in BOXES.items():
        boxes, floors = boxes_and_floors(Path(path).name)
        lines, largest = max((len(file.read_text().splitlines()), file) for file in (ROOT / path).rglob("*.py"))
        print(f"{path:<32}{boxes:>3}/{limit} boxes{floors:>3}/{FLOORS} floors{lines:>5}/{LINES} lines {largest.name}")
        refused += boxes > limit or floors > FLOORS or lines > LINES
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
