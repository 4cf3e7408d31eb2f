"""torchvision's names for the entries of a ResNet, in this project's words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

_BLOCK = re.compile(r"layer([1-4])\.(\d+)\.(?:(conv|bn)(\d)|downsample\.([01]))\.(.+)")
_TOP = {"conv1.": "stem.0.0.", "bn1.": "stem.0.1.", "fc.": "head.2."}


def of_torchvision(entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with torchvision's names for ResNet-18 to -152 renamed; any other as it is.

    Stages are numbered through here and by group there: ``layer2.0.conv3.weight`` of ResNet-50 is
    ``stages.3.body.2.0.weight``.
    """
    if "conv1.weight" not in entries or "layer1.0.conv1.weight" not in entries:
        return dict(entries)
    blocks = sorted({(int(m[1]), int(m[2])) for name in entries if (m := _BLOCK.fullmatch(name))})
    place = {block: index for index, block in enumerate(blocks)}
    return {_renamed(name, place): tensor for name, tensor in entries.items()}


def _renamed(name: str, place: Mapping[tuple[int, int], int]) -> str:
    for theirs, ours in _TOP.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    found = _BLOCK.fullmatch(name)
    if found is None:
        return name
    group, index, kind, number, shortcut, rest = found.groups()
    stage = f"stages.{place[int(group), int(index)]}"
    if shortcut is not None:
        return f"{stage}.shortcut.{shortcut}.{rest}"
    return f"{stage}.body.{int(number) - 1}.{0 if kind == 'conv' else 1}.{rest}"
