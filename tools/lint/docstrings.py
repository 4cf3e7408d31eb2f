"""Docstrings that the documentation site shows: they begin with a verb, and name arguments, result and exceptions.

python tools/lint/docstrings.py            # exit 1 for one that lacks a part

The site shows `scalecurve.*`, `scalecurve_worker.attach` and the methods of `Bench` that `docs/reference/python.md`
lists. A property is a noun, as a field is.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_MEMBERS = re.compile(r"members: \[(.*)\]")
_NOUNS = frozenset({"the", "a", "an", "what", "how", "whether", "where", "all", "each", "every", "one", "its", "of"})


def shown() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name and function of everything that the page shows."""
    import scalecurve
    import scalecurve_worker

    for name in scalecurve.__all__:
        if inspect.isfunction(function := getattr(scalecurve, name)):
            yield name, function
    yield "attach", scalecurve_worker.attach
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    listed = _MEMBERS.search(page)
    for name in listed[1].split(", ") if listed else ():
        if inspect.isfunction(member := inspect.getattr_static(scalecurve_worker.Bench, name)):
            yield f"Bench.{name}", member


def lacking(function: Callable[..., Any]) -> Iterator[str]:
    """Yield each part that a docstring lacks."""
    text, signature = inspect.getdoc(function) or "", inspect.signature(function)
    first = text.split(maxsplit=1)[0] if text else ""
    if not first or first.lower() in _NOUNS or not first[0].isupper():
        yield "a verb at its beginning"
    named = [name for name in signature.parameters if name != "self"]
    arguments = text.partition("Args:")[2].partition("\n\n")[0]
    if missing := [name for name in named if not re.search(rf"^\s+\**{re.escape(name)}: ", arguments, re.MULTILINE)]:
        yield f"Args: for {', '.join(missing)}"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty) and "Returns:" not in text:
        yield "Returns:"
    if re.search(r"^\s+raise \w+\(", inspect.getsource(function), re.MULTILINE) and "Raises:" not in text:
        yield "Raises:"


def main() -> int:
    """Print what is refused."""
    refused = [f"{name}: its docstring lacks {part}" for name, function in shown() for part in lacking(function)]
    print("\n".join(refused), end="\n" if refused else "")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
