"""Which optimizer update ends a step: pure."""

from collections import Counter
from collections.abc import Callable

# Updates after which an optimizer that exists, and has never stepped, is no longer waited for.
_MOST_AWAITED = 32


class StepEnds:
    """A step ends with the update of one optimizer; the others' updates are parts of steps.

    With one optimizer that is the one. With several (a GAN's; AdamW beside Muon) it is the one with the fewest
    updates, and among equals the last of a round: the step then has one of its updates, and all of the others'.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._counts: Counter[int] = Counter()
        self._since = 0

    @property
    def last(self) -> int | None:
        """The optimizer whose update ends a step, once it is known."""
        return self._last

    def ends_step(self, optimizer: int, living: Callable[[], int]) -> bool:
        """Whether an update of ``optimizer`` ends a step; ``living`` counts the optimizers that the program has."""
        if self._last is not None:
            self._since = 0 if optimizer == self._last else self._since + 1
            if self._since <= 2 * _MOST_AWAITED * max(1, len(self._counts)):
                return optimizer == self._last
            # It was replaced by another.
            self._last, self._since = None, 0
            self._counts.clear()
        self._counts[optimizer] += 1
        alive = living()
        complete = len(self._counts) >= alive and (alive <= 1 or min(self._counts.values()) > 1)
        if complete or self._counts.total() >= _MOST_AWAITED * alive:
            self._choose(optimizer)
        return optimizer == self._last

    def _choose(self, latest: int) -> None:
        least = min(self._counts.values())
        rarest = [key for key, count in self._counts.items() if count == least]
        self._last = latest if latest in rarest else rarest[-1]
