"""Archives of images, by the names that people use for them."""

from collections.abc import Sequence
from pathlib import Path

from tools.images import build as images
from tools.images import recipe


def archives_of(chosen: Sequence[str]) -> list[Path]:
    """Archives as they are named: files, or images of this repository; of the latter all that are built, for none.

    Raises ValueError for what is neither.
    """
    if not chosen:
        return [archive for name in recipe.names() if (archive := images.built(name)).exists()]
    archives = []
    for each in chosen:
        archive = images.built(each) if each in recipe.names() else Path(each).absolute()
        if not archive.exists():
            make = f"`make images IMAGES={each}` builds it" if each in recipe.names() else "there is no such archive"
            raise ValueError(f"{each}: {make}; images of this repository are {', '.join(recipe.names())}")
        archives.append(archive)
    return archives
