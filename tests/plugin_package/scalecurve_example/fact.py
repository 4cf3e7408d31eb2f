"""``oversleep``: how much longer than asked the steps of program sleep took, of every rank."""

from __future__ import annotations

from scalecurve_api.model import Model
from scalecurve_api.record.fact_kind import EVERY, FactKind


class Oversleep(Model):
    """What the operating system added to the sleeps of a rank."""

    steps: int
    seconds: float


OVERSLEEP = FactKind[Oversleep | None]("oversleep", Oversleep, None, EVERY, bounds={"": {"seconds": (0, 1e6)}})
