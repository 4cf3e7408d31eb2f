"""Imports inside functions are for start-up time alone, and each is listed in late_imports.txt beside this file.

`scalecurve --help` and the help of every verb load no numpy, pandas, pydantic, matplotlib or Kubernetes client; what
a verb needs is imported when it runs. Anything else is imported at the top of its module.

    python tools/lint/late_imports.py            # exit 1 where the list and the code differ
    python tools/lint/late_imports.py --write    # write the list
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".txt")
PACKAGES = ["analysis/scalecurve", "analysis/scalecurve_models"]


def late_imports(path: Path) -> set[str]:
    """The modules that the functions of a file import."""
    names = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom):
                    names.add(node.module or ".")
                elif isinstance(node, ast.Import):
                    names.update(alias.name for alias in node.names)
    return names


def lines() -> list[str]:
    """``file: module module``, one line for each file that imports late."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    imports = ((path.relative_to(ROOT), late_imports(path)) for path in files)
    return [f"{path}: {' '.join(sorted(names))}" for path, names in imports if names]


def main() -> int:
    """Compare or write the list."""
    found = lines()
    if "--write" in sys.argv[1:]:
        LIST.write_text("\n".join(found) + "\n")
        return 0
    listed = LIST.read_text().splitlines()
    for line in sorted(set(found) - set(listed)):
        print(f"not in {LIST.name}: {line}")
    for line in sorted(set(listed) - set(found)):
        print(f"only in {LIST.name}: {line}")
    return int(found != listed)


if __name__ == "__main__":
    sys.exit(main())
