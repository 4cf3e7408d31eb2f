"""Lists the image files of a folder by class: from train, val and test folders, or with a held-out share."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalecurve_worker.training.data.images import DataError, FolderSplit

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp")


@dataclass(frozen=True)
class ImageList:
    """The files of one split and their class numbers; classes are numbered by their sorted folders.

    ``names`` are relative to ``folder``, as bytes. Arrays, as a list of a million names is slow to send to every
    decoding process.
    """

    folder: Path
    class_names: tuple[str, ...]
    names: NDArray[np.bytes_]
    labels: NDArray[np.int64]

    @property
    def classes(self) -> int:
        return len(self.class_names)

    def __len__(self) -> int:
        return len(self.labels)

    def file(self, index: int) -> Path:
        return self.folder / os.fsdecode(bytes(self.names[index]))


def list_images(path: Path, split: FolderSplit, *, validation: float | None = None, split_seed: int = 0) -> ImageList:
    """List one split of ``<path>/{train,val,test}/<class>/<image>``.

    Without ``val`` a share of ``train``, or of ``<path>/<class>/<image>``, is held out by ``validation``; and without
    that ``test`` is what training is validated on.
    """
    if validation is not None and (path / "train").is_dir() and (path / "val").is_dir():
        raise DataError(f"{path}: has train and val; validation {validation} is for a folder without val")
    if validation is not None and split != "test":
        return _split_images(path / "train" if _has_classes(path / "train") else path, split, validation, split_seed)
    classes = _subfolders(path / "train", path)
    folder = validation_folder(path) if split == "val" else path / split
    folders = classes if split == "train" else _subfolders(folder, path)
    strangers = sorted(set(folders) - set(classes))
    if strangers:
        raise DataError(f"{folder / strangers[0]}: {path / 'train'} has no class of that name")
    numbers = {name: number for number, name in enumerate(classes)}
    return _list(folder, tuple(classes), [(numbers[name], _files(folder, name)) for name in folders])


def validation_folder(path: Path) -> Path:
    """Return ``val``, or ``test`` where that alone is there."""
    return path / ("test" if not (path / "val").is_dir() and _has_classes(path / "test") else "val")


def has_test(path: Path, validation: float | None) -> bool:
    """Tell whether ``test`` holds labeled images beside ``train``, and is not what training is validated on."""
    if not (_has_classes(path / "train") and _has_classes(path / "test")):
        return False
    return validation is not None or validation_folder(path).name == "val"


def _split_images(path: Path, split: FolderSplit, share: float, seed: int) -> ImageList:
    """Of each class the same images in every process and run: as many as ``share`` of it, at least one, not all."""
    classes = _subfolders(path, path)
    parts = []
    for number, name in enumerate(classes):
        files = _files(path, name)
        if len(files) < 2:
            raise DataError(f"{path / name}: holds one image; validation {share} needs at least two per class")
        held = min(max(1, round(share * len(files))), len(files) - 1)
        shuffled = np.random.default_rng((seed, number)).permutation(len(files))
        chosen = sorted(shuffled[:held] if split == "val" else shuffled[held:])
        parts.append((number, [files[index] for index in chosen]))
    return _list(path, tuple(classes), parts)


def _list(folder: Path, classes: tuple[str, ...], parts: list[tuple[int, list[bytes]]]) -> ImageList:
    names = [name for _, files in parts for name in files]
    labels = [number for number, files in parts for _ in files]
    return ImageList(folder, classes, np.array(names), np.array(labels, np.int64))


def _files(folder: Path, name: str) -> list[bytes]:
    with os.scandir(folder / name) as entries:
        images = (each for each in entries if each.name.lower().endswith(ENDINGS) and each.is_file())
        files = sorted(each.name for each in images if not each.name.startswith("."))
    if not files:
        raise DataError(f"{folder / name}: holds no image ({', '.join(ENDINGS)})")
    return [os.fsencode(f"{name}/{file}") for file in files]


def _has_classes(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    with os.scandir(folder) as entries:
        return any(entry.is_dir() and not entry.name.startswith(".") for entry in entries)


def _subfolders(folder: Path, path: Path) -> list[str]:
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; image-folder reads {path}/{{train,val}}/<class>/<image>, or {path}/train and "
            f"test, or {path}/<class>/<image> with validation set to the share to hold out"
        )
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise DataError(f"{folder}: holds no class folders")
    return names
