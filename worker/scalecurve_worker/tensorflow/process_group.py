"""What adds up gradients between processes, where TensorFlow's strategy knows of this one alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol


class ProcessGroup(Protocol):
    """This process among those that train one model."""

    rank: int
    size: int
    versions: dict[str, str]

    @property
    def name(self) -> str | None:
        """The class that adds up, as it is found there."""

    def tape(self, tape: Any) -> Any:
        """A tape whose gradients are the mean over all processes."""

    def start_alike(self, variables: Iterable[Any]) -> None:
        """Give Keras's variables the first process's values."""

    def leave(self) -> None:
        """Go, once all others may go too."""
