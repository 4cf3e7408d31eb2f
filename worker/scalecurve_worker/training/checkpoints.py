"""What ``workload.transfer`` means in every framework: names of a checkpoint, and what of it fits a model."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from scalecurve_worker.process.failure import WorkloadError

T = TypeVar("T")
FIELD = "workload.transfer.checkpoint"
FOLDER_FIELD = "measure.accuracy.checkpoints"

_BLOCK = re.compile(r"layer([1-4])\.(\d+)\.(?:(conv|bn)(\d)|downsample\.([01]))\.(.+)")
_TOP = {"conv1.": "stem.0.0.", "bn1.": "stem.0.1.", "fc.": "head.2."}
_CLASSIFIER = re.compile(r"classifier\.(\d+)\.(.+)")


def convert_torchvision_names(entries: Mapping[str, T]) -> dict[str, T]:
    """Rename a state dict with torchvision's names for ResNet-18 to -152, VGG or AlexNet; keep any other as it is.

    Stages are numbered through here and by group there: ``layer2.0.conv3.weight`` of ResNet-50 is
    ``stages.3.body.2.0.weight``. The linear layers of VGG and AlexNet come two places later in the head, behind the
    pooling.
    """
    if "features.0.weight" in entries:
        return {_rename_classifier(name): entry for name, entry in entries.items()}
    if "conv1.weight" not in entries or "layer1.0.conv1.weight" not in entries:
        return dict(entries)
    blocks = sorted({(int(m[1]), int(m[2])) for name in entries if (m := _BLOCK.fullmatch(name))})
    place = {block: index for index, block in enumerate(blocks)}
    return {_rename_entry(name, place): entry for name, entry in entries.items()}


def _rename_classifier(name: str) -> str:
    match = _CLASSIFIER.fullmatch(name)
    return f"head.{int(match[1]) + 2}.{match[2]}" if match else name


def _rename_entry(name: str, place: Mapping[tuple[int, int], int]) -> str:
    for theirs, ours in _TOP.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    match = _BLOCK.fullmatch(name)
    if match is None:
        return name
    group, index, kind, number, shortcut, rest = match.groups()
    stage = f"stages.{place[int(group), int(index)]}"
    if shortcut is not None:
        return f"{stage}.shortcut.{shortcut}.{rest}"
    return f"{stage}.body.{int(number) - 1}.{0 if kind == 'conv' else 1}.{rest}"


def take_over(
    path: Path,
    stored: Mapping[str, Any],
    expected: Mapping[str, tuple[int, ...]],
    head: Collection[str],
    put: Callable[[str, Any], object],
) -> str:
    """``put`` every entry that fits a model of these shapes; what was done about the head, for the record.

    Names are this project's or torchvision's. The head stays freshly drawn where the checkpoint's is for another number
    of classes, and is taken over where it fits.

    Raises:
        WorkloadError: the file is of another architecture; nothing was put.
    """
    entries = convert_torchvision_names(stored)
    shapes = {name: tuple(entry.shape) for name, entry in entries.items()}
    optional = {name for name in expected if name.endswith("num_batches_tracked")}
    strangers = [n for n in shapes if n not in expected and not n.endswith("num_batches_tracked")]
    apart = [f"{name} is missing" for name in expected if name not in shapes and name not in optional]
    apart += [f"{name} is of no layer" for name in strangers]
    other = [name for name in expected if name in shapes and shapes[name] != expected[name]]
    apart += [f"{n} is {list(shapes[n])} and not {list(expected[n])}" for n in other if n not in head]
    if apart:
        more = f" and {len(apart) - 3} more" if len(apart) > 3 else ""
        raise WorkloadError(f"{FIELD}: {path}: different architecture: {'; '.join(apart[:3])}{more}")
    for name in expected:
        if name in entries and name not in other:
            put(name, entries[name])
    return "new, for another number of classes" if other else "the checkpoint's"


def missing(path: Path) -> WorkloadError:
    """Return the error of a missing file.

    A relative path is looked for in the folder that the program was started in, as ``data.path`` is.
    """
    return WorkloadError(f"{FIELD}: {path}: no such file (looked for from {Path.cwd()})")


def open_folder(path: str) -> Path:
    """Open the folder for checkpoints, made if absent; a relative one is in the folder the program started in."""
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkloadError(f"{FOLDER_FIELD}: {folder}: cannot be created: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise WorkloadError(f"{FOLDER_FIELD}: {folder}: cannot be written to")
    return folder
