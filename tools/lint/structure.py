"""The size of each package, held against the limits of docs/design.md; import-linter refuses circles.

A box is a module or a subpackage directly inside a package. Floors are the longest chain of boxes that import each
other, wherever in a file.
"""

import sys
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
