"""What one process remembers of an unfinished experiment between its turns; losing it costs a few requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from scalecurve_kube.client import Object, Refused
from scalecurve_operator.cache.trial_index import Ledger

_LONG_AGO = float("-inf")
IN_THE_WAY, REFUSED = "InTheWay", "Refused"
"""Reasons why a trial is hindered."""


@dataclass
class Turning:
    """The ledger of its trials, and what was last seen and said of them."""

    ledger: Ledger
    published: Object = field(default_factory=dict)
    published_at: float = _LONG_AGO
    started_at: float | None = None
    """Unix time of the first trial that this process began"""
    beginning: set[str] = field(default_factory=set)
    """trials that this turn has begun an attempt of"""
    checked: dict[str, float] = field(default_factory=dict)
    """trial -> when its job, pods and events were last looked at"""
    hindered: dict[str, tuple[str, str]] = field(default_factory=dict)
    """trial -> what keeps this turn from going on with it: a condition's reason, and words"""
    refusal: Refused | None = None
    """the last of this turn's"""
    waits: dict[str, str] = field(default_factory=dict)
    """trial -> what its job waits for"""
