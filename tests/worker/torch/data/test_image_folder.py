"""Folders of pictures: read by class, decoded by other processes that end with the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from scalecurve_worker.torch.data import DataError, DataOptions, Loader, open_data
from tests.waiting import eventually

COLOURS = {"ant": (250, 10, 10), "bee": (10, 250, 10), "cat": (10, 10, 250)}


def write_images(root: Path, *, per_class: int = 4, ending: str = ".png") -> None:
    for split, count in (("train", per_class), ("val", 2)):
        for name, colour in COLOURS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (40 + 8 * number, 48), colour).save(folder / f"{number}{ending}")


def folder_loader(root: Path, **arguments: Any) -> Loader:
    options = {"batch": 3, "shape": (3, 24, 24), "options": DataOptions(loaders=0)}
    return open_data("image-folder", path=root, **(options | arguments))


@pytest.mark.parametrize("split", ["train", "val"])
def test_images_are_read_by_class_and_normalised(tmp_path: Path, split: str) -> None:
    write_images(tmp_path)
    (tmp_path / "train" / ".cache").mkdir()
    (tmp_path / "train" / "ant" / "notes.txt").write_text("no image")
    loader = folder_loader(tmp_path, split=split)
    assert (loader.spec.items, loader.spec.classes, len(loader)) == ((12, 3, 4) if split == "train" else (6, 3, 2))
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    seen = 0
    for x, y in loader:
        assert x.shape == (3, 3, 24, 24)
        for image, label in zip(x, y.tolist(), strict=True):
            colour = torch.tensor(list(COLOURS.values())[label]) / 255
            expected = ((colour - mean) / deviation).view(3, 1, 1).expand(3, 24, 24)
            torch.testing.assert_close(image, expected, rtol=1e-4, atol=1e-4)
        seen += len(y)
    assert seen == loader.spec.items


def test_grey_images_and_jpegs_are_read(tmp_path: Path) -> None:
    write_images(tmp_path, ending=".JPEG")
    x, _ = next(iter(folder_loader(tmp_path, shape=(1, 16, 20), options=DataOptions(loaders=0, channels_last=True))))
    assert x.shape == (3, 1, 16, 20)
    assert x.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.processes
def test_other_processes_decode_the_same_pictures(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    write_images(tmp_path)
    for file in (tmp_path / "train").rglob("*.png"):
        Image.fromarray(random.integers(0, 256, (48, 40, 3), dtype=np.uint8)).save(file)
    here, there = folder_loader(tmp_path), folder_loader(tmp_path, options=DataOptions(loaders=2))
    next(iter(there))  # begun and not finished
    for epoch in (0, 1):
        here.set_epoch(epoch)
        there.set_epoch(epoch)
        for (x, y), (other_x, other_y) in zip(here, there, strict=True):
            assert torch.equal(x, other_x)
            assert torch.equal(y, other_y)
    (tmp_path / "train" / "bee" / "1.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"^\S*train/bee/1.png: cannot be decoded"):
        list(there)
    there.close()
    here.close()
    with pytest.raises(DataError, match="image-folder: this loader was closed"):
        iter(there)


@pytest.mark.parametrize("damage", [b"", b"no picture", "cut"])
def test_a_damaged_picture_is_named(tmp_path: Path, damage: bytes | str) -> None:
    write_images(tmp_path, ending=".jpg")
    file = tmp_path / "val" / "cat" / "1.jpg"
    file.write_bytes(file.read_bytes()[:-40] if isinstance(damage, str) else damage)
    with pytest.raises(DataError) as caught:
        list(folder_loader(tmp_path, split="val"))
    assert str(caught.value).startswith(f"{file}: cannot be decoded")


def test_a_wrong_folder_is_named(tmp_path: Path) -> None:
    def message(**arguments: Any) -> str:
        with pytest.raises(DataError) as caught:
            folder_loader(tmp_path, **arguments)
        return str(caught.value)

    assert f"{tmp_path}/train: no such folder; image-folder reads {tmp_path}/{{train,val}}/<class>" in message()
    (tmp_path / "train").mkdir()
    assert message() == f"{tmp_path}/train: holds no class folders"
    (tmp_path / "train" / "ant").mkdir()
    assert f"{tmp_path}/train/ant: holds no image (.jpg" in message()
    Image.new("RGB", (8, 8)).save(tmp_path / "train" / "ant" / "0.png")
    assert message(split="val").startswith(f"{tmp_path}/val: no such folder")
    (tmp_path / "val" / "dog").mkdir(parents=True)
    assert message(split="val") == f"{tmp_path}/val/dog: {tmp_path}/train has no class of that name"
    assert "1 items do not fill one batch of 3" in message()
    assert "shape [2, 8, 8]: expected [1 or 3, height, width]" in message(shape=(2, 8, 8))
    write_images(tmp_path / "all")
    with pytest.raises(DataError, match="train: classes 2: there are 3 class folders"):
        folder_loader(tmp_path / "all", classes=2)
    assert folder_loader(tmp_path / "all", classes=1000).spec.classes == 1000


KILLED = """
import sys, time
from scalecurve_worker.torch.data import DataOptions, open_data
if __name__ == "__main__":
    options = DataOptions(loaders=2)
    stream = open_data("image-folder", path=sys.argv[1], batch=3, shape=(3, 24, 24), options=options).endless()
    next(stream)
    print("running", flush=True)
    time.sleep(600)
"""


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [number for child in children for number in (int(child), *descendants(int(child)))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.processes
def test_a_killed_worker_leaves_no_decoding_process(tmp_path: Path) -> None:
    write_images(tmp_path)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, script, tmp_path], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        started = descendants(process.pid)
        assert len(started) >= 3  # the fork server and two decoders
        process.kill()
    try:
        eventually(lambda: not any(alive(pid) for pid in started), "the end of every process that it started")
    finally:
        for pid in started:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
