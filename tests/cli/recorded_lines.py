"""Calls and what they must print, from a file beside the tests: ``$ words``, then a line for each part of it."""

from pathlib import Path


def cases(name: str) -> list[tuple[str, list[str]]]:
    """The words of every call, and the parts of its message."""
    blocks = Path(__file__).with_name(name).read_text(encoding="utf-8").split("$ ")[1:]
    return [(words, parts) for words, *parts in (block.rstrip("\n").split("\n") for block in blocks)]
