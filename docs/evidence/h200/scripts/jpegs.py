"""Write JPEG files of 400x400 in two classes: ``python jpegs.py FOLDER``, with train/ and test/."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 400
COUNTS = {"train": 2048, "test": 64}


def main(folder: Path) -> None:
    """Write smooth random pictures, the same whenever and wherever it runs."""
    random = np.random.default_rng(0)
    for split, count in COUNTS.items():
        for name in ("light", "dark"):
            place = folder / split / name
            place.mkdir(parents=True, exist_ok=True)
            for index in range(count):
                coarse = random.integers(0, 160, (25, 25, 3)) + (95 if name == "light" else 0)
                picture = Image.fromarray(coarse.astype(np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
                picture.save(place / f"{index:04}.jpg", quality=90)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
