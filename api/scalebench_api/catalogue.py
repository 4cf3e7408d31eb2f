"""Names of the models that the built-in torch program has; its registry is tested to hold exactly these."""

from __future__ import annotations

MODELS: tuple[str, ...] = ("resnet18",)
