"""What goes into an image, and the digest of all of it: a build whose digest is in the cache is not repeated."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.images import containerfile
from tools.images.containerfile import Instruction, Stage

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "images"
IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache")
"""Folders that ``images/containerignore`` keeps out too."""


class RecipeError(ValueError):
    """A Containerfile that cannot be read, or copies what is not there."""


@dataclass(frozen=True)
class Recipe:
    """What one image is made of: stages of a Containerfile, and what they copy from the repository."""

    name: str
    path: Path
    stages: tuple[Stage, ...]
    """those that it is made of; the last is the image"""

    @property
    def instructions(self) -> list[Instruction]:
        """Those of all its stages, in order."""
        return [each for stage in self.stages for each in stage.instructions]

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments and their defaults."""
        pairs = [rest.partition("=") for word, rest in self.instructions if word == "ARG"]
        return {key.strip(): value.strip() for key, _, value in reversed(pairs)}

    @property
    def sources(self) -> list[str]:
        """Files and folders of the repository that it copies, in order."""
        return [source for stage in self.stages for source in _copied(stage)]

    @property
    def code(self) -> list[str]:
        """Those of them that come into its last layer only."""
        return [source for stage in self.stages if stage.name == _CODE for source in _copied(stage)]


_CODE = "code"
"""The stage that copies our own code."""
_IMAGE = "worker-"
"""How the names of stages begin that are images; a last stage without a name is one, by the name of its folder."""


def names() -> list[str]:
    """Images that can be built."""
    return sorted(_all())


def read(name: str, images: Path | None = None) -> Recipe:
    """The recipe of one image, of this repository or of another folder.

    Raises:
        RecipeError: there is no such image.
    """
    known = _all(images)
    if name not in known:
        raise RecipeError(f"no image named {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def _all(images: Path | None = None) -> dict[str, Recipe]:
    found = {}
    for path in sorted((images or IMAGES).glob("*/Containerfile")):
        every = containerfile.stages(path.read_text())
        last_stages = {stage.name: stage for stage in every if stage.name.startswith(_IMAGE)}
        if not every[-1].name:
            last_stages[path.parent.name] = every[-1]
        for name, last in last_stages.items():
            found[name] = Recipe(name, path, tuple(containerfile.needed(every, last)))
    return found


def _copied(stage: Stage) -> list[str]:
    copies = [rest.split() for word, rest in stage.instructions if word == "COPY" and "--from=" not in rest]
    return [source for words in copies for source in [word for word in words if not word.startswith("--")][:-1]]


def check_arguments(recipes: Sequence[Recipe], given: Iterable[str]) -> None:
    """Raises RecipeError for a build argument that none of the images has."""
    known = sorted({key for each in recipes for key in each.arguments})
    for key in given:
        if key not in known:
            names = ", ".join(each.name for each in recipes)
            raise RecipeError(f"--build-arg {key}: {names}: there is no such argument; there are {', '.join(known)}")


def digest(
    recipe: Recipe, base: str, tag: str, arguments: Mapping[str, str], root: Path | None = None, code: bool = True
) -> str:
    """Twelve hex digits over everything that decides what is in the archive; or, without our code, in its packages.

    The package index is left out: it is a way to the packages, whose versions the copied constraints fix.

    Raises:
        RecipeError: the Containerfile copies what is not there.
    """
    found, root = hashlib.sha256(), root or ROOT
    for text in ("image 3", recipe.name, base, tag, *(f"{key}={arguments[key]}" for key in sorted(arguments))):
        found.update(text.encode() + b"\0")
    found.update(json.dumps(recipe.instructions).encode())
    for source in sorted({*recipe.sources} - ({*recipe.code} if not code else set())):
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
