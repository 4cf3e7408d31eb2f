"""Overlays: changes to an experiment as a JSON merge patch (RFC 7386) in YAML.

Mappings are merged, null removes a field, everything else (lists too) is replaced. Each value keeps the file and the
line that it was written in, so that an error names them.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from scalecurve_api.problem import NOTHING, Description, Path, Problem, expected, shorten
from scalecurve_api.validation.document import Document, read_documents

_OVERLAY = expected("an overlay: one mapping of the fields that differ from the experiment")


def read_overlay(text: str, file: str) -> tuple[Document | None, list[Problem]]:
    """Read the overlay in a YAML text, or return its problems; never raises on bad input."""
    documents, problems = read_documents(text, file)
    if problems:
        return None, problems
    if len(documents) != 1:
        got = Description(f"{len(documents)} documents" if documents else "an empty file")
        return None, [Problem(("document",), got, _OVERLAY, file=file)]
    (overlay,) = documents
    if not isinstance(overlay.value, dict):
        got = Description("an empty document") if overlay.value is None else overlay.value
        return None, [Problem(("document",), got, _OVERLAY, file=file, line=overlay.place(())[1])]
    return overlay, []


def lay_over(document: Document, overlays: Iterable[Document]) -> tuple[Document, list[Problem]]:
    """Merge the overlays, in order, into a copy of the document; return it with any problems."""
    problems: list[Problem] = []
    for overlay in overlays if isinstance(document.value, dict) else ():
        problems += _check_kind(document, overlay)
        replaced = set(_find_replaced(document.value, overlay.value))
        kept = {path: line for path, line in document.lines.items() if not _is_within(path, replaced)}
        files = {path: file for path, file in document.files.items() if path in kept}
        files.update(dict.fromkeys(overlay.lines, overlay.file))
        document = Document(document.file, _merge(document.value, overlay.value), {**kept, **overlay.lines}, files)
    return document, problems


def _check_kind(document: Document, overlay: Document) -> Iterator[Problem]:
    for name in ("apiVersion", "kind"):
        if name in overlay.value and overlay.value[name] != document.value.get(name):
            file, line = overlay.place((name,))
            same = f"{shorten(document.value.get(name, NOTHING))} as in {document.file}, which no overlay may change"
            yield Problem((name,), overlay.value[name], expected(same), file=file, line=line)


def _merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), change)
    return merged


def _find_replaced(value: Any, patch: Any, path: Path = ()) -> Iterator[Path]:
    if not (isinstance(value, dict) and isinstance(patch, dict)):
        yield path
        return
    for name in patch:
        yield from _find_replaced(value.get(name), patch[name], (*path, name))


def _is_within(path: Path, outer: set[Path]) -> bool:
    return any(path[:end] in outer for end in range(len(path) + 1))
