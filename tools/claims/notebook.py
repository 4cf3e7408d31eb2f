"""Run a notebook's cells anew, and keep what a reader of it sees: tables and pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

_KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_TIMEOUT_S = 300


def executed(file: Path) -> str:
    """The notebook with what its cells give now.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    notebook = nbformat.read(file, 4)  # type: ignore[no-untyped-call]  # it has no annotations
    NotebookClient(notebook, timeout=_TIMEOUT_S, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.pop("id", None)
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            if len(output.get("data", {})) > 1:
                output["data"].pop("text/plain", None)  # a result's fields, of which its table is what people read
    notebook.metadata = _KERNEL
    notebook.nbformat_minor = 4  # cells without random ids
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def tables(text: str) -> Iterator[tuple[int, Any]]:
    """Each output but pictures, with the number of its cell: pixels depend on fonts."""
    for number, cell in enumerate(json.loads(text)["cells"]):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            yield number, {kind: value for kind, value in data.items() if kind != "image/png"} or output.get("text")
