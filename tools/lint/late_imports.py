"""Imports inside functions are for start-up time alone, and each is listed in late_imports.txt beside this file.

`scalecurve --help` and the help of every verb load no numpy, pandas, pydantic, matplotlib or Kubernetes client; what
a verb needs is imported when it runs. Anything else is imported at the top of its module. `tools.generated` writes the
list; a reviewer sees what was added.
"""

import ast
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


def text() -> str:
    """The list: ``file: module module``, one line for each file that imports late."""
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    imports = ((path.relative_to(ROOT), late_imports(path)) for path in files)
    return "".join(f"{path}: {' '.join(sorted(names))}\n" for path, names in imports if names)
