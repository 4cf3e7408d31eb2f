"""Inception-v3 of ``training.inception`` as modules of torch."""

from functools import partial

from torch import Tensor, nn

from scalecurve_worker.torch.models.layers import AuxiliaryLogits, Branches, classifier_head, conv_norm, gaussian
from scalecurve_worker.training.inception import DEVIATION, DROPOUT, EPSILON, TO_8, TO_17, ConvPart, Part

conv = partial(conv_norm, eps=EPSILON)


class InceptionV3(nn.Module):
    """Inception-v3; ``auxiliary`` adds the classifier at 17x17 that it is trained with."""

    def __init__(self, *, channels: int, classes: int, auxiliary: bool = False, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.to_17, at_17 = _build_part(TO_17, channels)
        self.to_8, at_8 = _build_part(TO_8, at_17)
        self.head = classifier_head(at_8, classes, dropout)
        self.auxiliary = (
            nn.Sequential(
                nn.AvgPool2d(5, stride=3),
                conv(at_17, 128, 1),
                conv(128, 768, 5),
                classifier_head(768, classes),
            )
            if auxiliary
            else None
        )
        gaussian(self, DEVIATION, truncated=True)
        if self.auxiliary is not None:
            # As the authors' code.
            for part, std in zip(self.auxiliary[1:], (0.01, 0.01, 0.001), strict=True):
                gaussian(part, std, truncated=True)

    def forward(self, x: Tensor) -> Tensor | AuxiliaryLogits:
        at_17 = self.to_17(x)
        logits: Tensor = self.head(self.to_8(at_17))
        if self.training and self.auxiliary is not None:
            return AuxiliaryLogits(logits, (self.auxiliary(at_17),))
        return logits


def _build_part(part: Part, channels: int) -> tuple[nn.Module, int]:
    """The module of a part over an input of so many channels, and how many it gives."""
    if isinstance(part, ConvPart):
        return conv(channels, part.width, part.kernel, stride=part.stride, padding=part.padding), part.width
    if isinstance(part, str):
        return nn.MaxPool2d(3, stride=2) if part == "max" else nn.AvgPool2d(3, stride=1, padding=1), channels
    if isinstance(part, tuple):
        branches = [_build_part(branch, channels) for branch in part]
        return Branches(*(module for module, _ in branches)), sum(width for _, width in branches)
    modules = []
    for each in part:
        module, channels = _build_part(each, channels)
        modules.append(module)
    return nn.Sequential(*modules), channels


inception_v3 = InceptionV3
