"""Samples of the steps that have begun, and their tokens where these are what throughput counts."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from scalecurve_api.record.rank import BatchSizes

Unit = Literal["samples", "tokens"]
UNITS: tuple[Unit, ...] = ("samples", "tokens")


class StepCount(NamedTuple):
    """What one step trained: ``units`` are what throughput counts, samples or tokens."""

    units: int
    samples: int


class Passes:
    """What a program's hooks see of its training passes: elements that the model is called with, and calls of backward.

    Of a window only what was seen at all since the program began is told: a hook may never be reached.
    """

    def __init__(self) -> None:
        self.inputs = self.backwards = 0
        self._at_opening = (0, 0)

    def open(self) -> None:
        """Open a window: its first timed step begins."""
        self._at_opening = self.inputs, self.backwards

    def pass_counts(self) -> dict[str, int | None]:
        """Return the counts of a window that closes now, by the fields of ``Window``."""
        inputs, backwards = self._at_opening
        return {
            "inputs": self.inputs - inputs if self.inputs else None,
            "backwards": self.backwards - backwards if self.backwards else None,
        }


class StepCounts:
    """Of steps that are not written out yet; a step's tokens may come until it ends."""

    def __init__(self, unit: Unit, share: tuple[int, int] = (0, 1)) -> None:
        """``share`` is this rank's part, and their number, of what the ranks of a data-parallel group train together.

        The parts are integers, and those of a group add up to its samples.
        """
        self._part, self._parts = share
        if unit not in UNITS:
            raise ValueError(f"attach: unit {unit!r}; expected {', '.join(UNITS)}")
        self.unit = unit
        self._samples: list[int] = []
        self._tokens: list[int] = []
        self._sizes = Counter[int]()

    def begin(self, samples: int, tokens: int | None) -> None:
        """Begin a step; without ``tokens``, ``add_tokens`` counts them."""
        self._samples.append(samples)
        if self.unit == "tokens":
            self._tokens.append(tokens or 0)

    def add_tokens(self, tokens: int) -> None:
        """Add tokens to the running step; called once for every micro-batch, where there are several."""
        if self.unit != "tokens":
            raise ValueError('bench.tokens: tokens are counted after attach(model, unit="tokens") alone')
        if tokens < 1:
            raise ValueError(f"bench.tokens: got {tokens!r}, expected the number of tokens, as batch.numel()")
        if self._tokens:
            self._tokens[-1] += tokens

    def or_tokens(self, batch: Any, tokens_of: Callable[[Any], int | None]) -> None:
        """Count the tokens in the batch of the running step, where its program has not counted them."""
        if self._tokens and not self._tokens[-1]:
            self._tokens[-1] = tokens_of(batch) or 0

    def correct(self, samples: int) -> None:
        """Correct the samples of the running step, whatever number it began with."""
        self._samples[-1] = samples

    @property
    def batch_sizes(self) -> BatchSizes | None:
        """Samples of the steps that were taken; those of a group where several ranks train the same."""
        if not (steps := self._sizes.total()):
            return None
        return BatchSizes(
            least=min(self._sizes),
            most=max(self._sizes),
            mean=sum(size * count for size, count in self._sizes.items()) / steps,
            most_common=max(self._sizes.values()) / steps,
        )

    def take(self, count: int) -> list[StepCount]:
        """Take the counts of the first ``count`` steps, which have ended.

        Raises:
            ValueError: the unit is tokens, and those of a step are not known.
        """
        samples, self._samples = self._samples[:count], self._samples[count:]
        self._sizes.update(samples)
        if self.unit == "samples":
            return [StepCount(self._own(each), self._own(each)) for each in samples]
        tokens, self._tokens = self._tokens[:count], self._tokens[count:]
        if not all(tokens):
            raise ValueError(
                'attach: unit="tokens", but the tokens of a step are not known: call bench.tokens(batch.numel()) in it'
            )
        pairs = zip(tokens, samples, strict=True)
        return [StepCount(self._own(units), self._own(sequences)) for units, sequences in pairs]

    def _own(self, count: int) -> int:
        return count * (self._part + 1) // self._parts - count * self._part // self._parts
