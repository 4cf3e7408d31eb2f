"""Write scikit-learn's 1,797 digits as an image folder: ``python digits.py FOLDER``; every fifth is for validation."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def main(folder: Path) -> None:
    """Grey images of 32 x 32 pixels, in train/ and val/, a folder for each class."""
    digits = load_digits()
    for index, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        place = folder / ("val" if index % 5 == 0 else "train") / str(label)
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.rint(image * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).resize((32, 32), Image.Resampling.BILINEAR).save(place / f"{index:04}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
