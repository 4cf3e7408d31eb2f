"""What goes into an image, and the digest of all of it: a build whose digest is in the cache is not repeated."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "images"
IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache")
"""Folders that ``images/containerignore`` keeps out too."""


class RecipeError(ValueError):
    """A Containerfile that cannot be read, or copies what is not there."""


@dataclass(frozen=True)
class Recipe:
    """A Containerfile and what it copies from the repository."""

    name: str
    path: Path
    arguments: Mapping[str, str]
    """build arguments and their defaults"""
    sources: tuple[str, ...]
    """files and folders of the repository that it copies, in order"""
    code: tuple[str, ...] = ()
    """those of them that come into its last layer only: what the stage named ``code`` copies"""


def names() -> list[str]:
    """Images that can be built: the folders with a Containerfile."""
    return sorted(path.parent.name for path in IMAGES.glob("*/Containerfile"))


def read(name: str, images: Path | None = None) -> Recipe:
    """The recipe of one image, of this repository or of another folder.

    Raises:
        RecipeError: there is no such image.
    """
    path = (images or IMAGES) / name / "Containerfile"
    if not path.is_file():
        raise RecipeError(f"no image named {name!r}; there are {', '.join(names())}")
    arguments, sources, code, stage = {}, [], [], ""
    for word, rest in instructions(path.read_text()):
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        if word == "ARG":
            key, _, value = rest.partition("=")
            arguments.setdefault(key.strip(), value.strip())
        if word == "COPY" and "--from=" not in rest:
            copied = [each for each in rest.split() if not each.startswith("--")][:-1]
            sources += copied
            code += copied if stage == "code" else []
    return Recipe(name, path, arguments, tuple(sources), tuple(code))


def check_arguments(recipes: Sequence[Recipe], given: Iterable[str]) -> None:
    """Raises RecipeError for a build argument that none of the images has."""
    known = sorted({key for each in recipes for key in each.arguments})
    for key in given:
        if key not in known:
            names = ", ".join(each.name for each in recipes)
            raise RecipeError(f"--build-arg {key}: {names}: there is no such argument; there are {', '.join(known)}")


def below_code(recipe: Recipe) -> Recipe:
    """The recipe without our code: what its digest names takes long to build, and seldom changes."""
    return replace(recipe, sources=tuple(each for each in recipe.sources if each not in recipe.code), code=())


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Each instruction of a Containerfile as (word, the rest), continued lines joined, comments left out."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()


def digest(recipe: Recipe, base: str, tag: str, arguments: Mapping[str, str], root: Path | None = None) -> str:
    """Twelve hex digits over everything that decides what is in the archive.

    The package index is left out: it is a way to the packages, whose versions the copied constraints fix.

    Raises:
        RecipeError: the Containerfile copies what is not there.
    """
    found, root = hashlib.sha256(), root or ROOT
    for text in ("image 2", recipe.name, base, tag, *(f"{key}={arguments[key]}" for key in sorted(arguments))):
        found.update(text.encode() + b"\0")
    found.update(recipe.path.read_bytes())
    for source in sorted(set(recipe.sources)):
        if not (root / source).exists():
            raise RecipeError(f"{recipe.path}: COPY {source}: not in {root}")
        for path in files(root / source):
            found.update(f"{path.relative_to(root)}\0{os.access(path, os.X_OK):d}\0".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]


def files(path: Path) -> Iterator[Path]:
    """The files under a path, in a fixed order, without caches of tools."""
    if path.is_file():
        yield path
        return
    for each in sorted(path.iterdir()):
        if each.name not in IGNORED and each.suffix != ".pyc":
            yield from files(each)
