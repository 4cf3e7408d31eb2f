"""What goes into an image, and the digest of all of it: a build whose digest is in the cache is not repeated."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "images"
_IGNORED = ("__pycache__", ".mypy_cache", ".ruff_cache")  # folders that `images/containerignore` keeps out too


class RecipeError(ValueError):
    """An image that does not exist, or a Containerfile that copies what does not."""


@dataclass(frozen=True)
class Recipe:
    """One image: a Containerfile, and the stage of it that is the image."""

    name: str
    path: Path
    target: str | None  # None is the last stage

    @property
    def base(self) -> str:
        """The default of the build argument BASE."""
        (base,) = re.findall(r"^ARG BASE=(\S+)", self.path.read_text(), re.MULTILINE)
        return str(base)

    def sources(self, code: bool = True) -> list[str]:
        """Files and folders that the Containerfile copies; without those of its stage `code`, which are ours."""
        text = re.sub(r"\\\n", " ", self.path.read_text())
        if not code:
            text = re.sub(r"^FROM \S+ AS code\n.*?(?=^FROM )", "", text, flags=re.MULTILINE | re.DOTALL)
        copies = re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        return sorted({word for copy in copies for word in copy.split()[:-1] if not word.startswith("--")})


def names() -> list[str]:
    """Images that can be built."""
    return sorted(_all())


def read(name: str) -> Recipe:
    """The recipe of one image. Raises RecipeError if there is no such image."""
    recipes = _all()
    if name not in recipes:
        raise RecipeError(f"no image named {name!r}; there are {', '.join(sorted(recipes))}")
    return recipes[name]


def _all() -> dict[str, Recipe]:
    """Every stage named `worker-...` is an image, and the last stage of a file without any has its folder's name."""
    recipes: dict[str, Recipe] = {}
    for path in IMAGES.glob("*/Containerfile"):
        targets = re.findall(r"^FROM \S+ AS (worker-\S+)$", path.read_text(), re.MULTILINE)
        stages = [(target, target) for target in targets] or [(path.parent.name, None)]
        recipes |= {name: Recipe(name, path, target) for name, target in stages}
    return recipes


def digest(recipe: Recipe, base: str, tag: str, arguments: Mapping[str, str], code: bool = True) -> str:
    """Twelve hex digits over everything that decides what is in the archive; without our code, in its packages.

    The package index is left out: the locks pin what is installed, wherever it comes from.

    Raises:
        RecipeError: the Containerfile copies what does not exist.
    """
    facts = hashlib.sha256(repr((recipe.name, base, tag, sorted(arguments.items()))).encode())
    facts.update(recipe.path.read_bytes())
    for source in recipe.sources(code):
        if not (ROOT / source).exists():
            raise RecipeError(f"{recipe.path}: COPY {source}: not in {ROOT}")
        for path in files(ROOT / source):
            facts.update(repr((str(path.relative_to(ROOT)), os.access(path, os.X_OK))).encode())
            facts.update(hashlib.sha256(path.read_bytes()).digest())
    return facts.hexdigest()[:12]


def files(path: Path) -> Iterator[Path]:
    """The files under a path, in a fixed order, without caches of tools."""
    if path.is_file():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name not in _IGNORED and entry.suffix != ".pyc":
            yield from files(entry)
