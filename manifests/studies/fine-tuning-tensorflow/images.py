"""Write an easy set of images: ``python images.py FOLDER``, with train/ and test/, and a folder for each class."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 48
COUNTS = {"train": 60, "test": 20}


def picture(name: str, random: np.random.Generator) -> np.ndarray:
    """A square, stripes across or stripes down, in two colors at random, with noise: bytes (SIDE, SIDE, 3)."""
    rows, columns = np.indices((SIDE, SIDE))
    period, phase = random.integers(16, 25), random.integers(24)
    inside = {
        "across": (rows + phase) % period < period // 2,
        "down": (columns + phase) % period < period // 2,
        "square": (abs(rows - SIDE // 2) < period // 2) & (abs(columns - SIDE // 2) < period // 2),
    }[name]
    dark, light = random.integers(0, 90, 3), random.integers(160, 256, 3)
    colors = np.where(inside[..., None], light, dark) + random.normal(0, 12, (SIDE, SIDE, 3))
    return colors.clip(0, 255).astype(np.uint8)


def main(folder: Path) -> None:
    """The same images whenever and wherever it runs."""
    random = np.random.default_rng(0)
    for split, count in COUNTS.items():
        for name in ("across", "down", "square"):
            place = folder / split / name
            place.mkdir(parents=True, exist_ok=True)
            for index in range(count):
                Image.fromarray(picture(name, random)).save(place / f"{index:03}.jpg", quality=90)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
