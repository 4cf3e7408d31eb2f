"""The prior of ``laws.normal_form`` and the widening of its intervals, both fitted to published curves.

``data/pooled_prior.json`` is what ``python -m benchmarks.prediction --write`` makes of ``data/published_points.csv``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from scalecurve_models.laws.normal_form import NormalFormPrior


@dataclass(frozen=True)
class Widening:
    """By how much intervals up to ``ratio`` times the largest measured count are widened; by so many ``cases``."""

    kind: str
    ratio: float
    factor: float
    cases: int = 0

    @property
    def certainty(self) -> float:
        """The largest probability that so many cases, all of which held, could support."""
        return 1 - 1 / (self.cases + 2)


@dataclass(frozen=True)
class PooledPrior:
    """The prior of a new curve, and how far its predictions are vouched for."""

    normal_form: NormalFormPrior
    widenings: Sequence[Widening]

    def calibration(self, kind: str, ratio: float) -> Widening | None:
        """Find the widening for a kind of extrapolation and a ratio of counts; None beyond what was calibrated."""
        farther = [each for each in self.widenings if each.kind == kind and each.ratio >= ratio - 1e-9]
        return min(farther, key=lambda each: each.ratio, default=None)

    def widening(self, kind: str, ratio: float) -> float | None:
        """Return the factor of ``calibration``."""
        calibration = self.calibration(kind, ratio)
        return None if calibration is None else calibration.factor

    def farthest(self, kind: str) -> float | None:
        """Return the largest ratio that was calibrated for a kind."""
        return max((each.ratio for each in self.widenings if each.kind == kind), default=None)

    def entry(self) -> dict[str, Any]:
        """Return what JSON is made of; ``of`` reads it."""
        return {"normal_form": asdict(self.normal_form), "widenings": [asdict(each) for each in self.widenings]}

    @classmethod
    def of(cls, entry: dict[str, Any]) -> PooledPrior:
        return cls(
            NormalFormPrior(**{name: _freeze(value) for name, value in entry["normal_form"].items()}),
            tuple(Widening(**each) for each in entry["widenings"]),
        )


@lru_cache(maxsize=1)
def pooled_prior() -> PooledPrior:
    """Read the shipped prior."""
    text = (files("scalecurve_models.laws") / "data" / "pooled_prior.json").read_text(encoding="utf-8")
    return PooledPrior.of(json.loads(text))


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
