"""How many samples a step trains on: batches of the training loader, matched with forward passes of the model."""

from collections import deque

INDICES = "_scalecurve_indices"
"""Attribute of a DataLoader's iterator: how many indices made each batch that is still to come."""
# Batches that a loop may take ahead of their training.
_MOST_AHEAD = 8


class StepSamples:
    """Batches that were taken from a loader and forward passes in training mode, from one update to the next.

    A forward pass trains on the oldest batch that was taken and not trained on, so a loop that takes one batch ahead
    is counted right at the end of an epoch. Where passes and batches do not go in pairs (a model in parts, two passes
    of a batch), all that was taken since the last update belongs to the step.
    """

    def __init__(self) -> None:
        self._taken: deque[tuple[int, int]] = deque()  # data set, samples
        self._batches = 0
        self._passes = 0
        self._step_passes = 0
        self._inputs: int | None = 0
        self._paired = True

    def take(self, samples: int, source: int = 0) -> None:
        """Record a batch of ``samples`` taken from a training loader of the data set ``source``."""
        self._taken.append((source, samples))
        self._batches += 1

    def drop(self, source: int) -> None:
        """Drop what the loader of ``source`` gave and nothing trained on: it was left before its end."""
        kept = [pair for pair in self._taken if pair[0] != source]
        self._batches -= len(self._taken) - len(kept)
        self._taken = deque(kept)

    def run(self, samples: int | None) -> None:
        """Record a forward pass in training mode; ``samples`` by the model's inputs, None where they do not tell."""
        self._passes += 1
        self._step_passes += 1
        self._inputs = None if samples is None or self._inputs is None else self._inputs + samples

    def forget(self) -> None:
        """Forget all counts: counting begins with the next step."""
        self._taken.clear()
        self._batches = self._passes = self._step_passes = 0
        self._inputs, self._paired = 0, True

    def end_step(self) -> int | None:
        """Return the samples of the step that ends now; None where nothing tells."""
        passes, inputs = self._step_passes, self._inputs or None
        self._step_passes, self._inputs = 0, 0
        if not self._batches:
            return inputs
        ahead = len(self._taken) - passes
        if not passes or ahead > _MOST_AHEAD or self._passes > self._batches + _MOST_AHEAD:
            self._paired = False
        if self._paired and ahead < 0 and inputs is not None:
            # Taken before counting began.
            self._taken.clear()
            return inputs
        count = passes if self._paired else len(self._taken)
        samples = sum(self._taken.popleft()[1] for _ in range(min(count, len(self._taken))))
        return samples or inputs
