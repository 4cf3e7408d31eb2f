"""Write scikit-learn's digits as image folders: 0 to 4 to learn from first, 100 of each of 5 to 9 to transfer to.

python digits_folders.py FOLDER makes FOLDER/digits-0-4/<digit>/<number>.png and FOLDER/digits-5-9/<digit>/<number>.png.
"""

import sys
from collections import Counter
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_digits

FEW = 100


def main(folder: Path) -> None:
    """Write them in the order of the set, with their 17 grey levels spread over a byte."""
    digits = load_digits()
    seen = Counter()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        seen[label] += 1
        if label >= 5 and seen[label] > FEW:
            continue
        part = folder / ("digits-0-4" if label < 5 else "digits-5-9") / str(label)
        part.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * (255 / 16)).round().astype("uint8")).save(part / f"{number:04d}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
