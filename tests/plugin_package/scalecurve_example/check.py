"""``LongEnough``: the timed windows of a trial take together 20 ms at least."""

from __future__ import annotations

from collections.abc import Sequence

from scalecurve_api.record.checks.registered import CheckResult, TrialCheck
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec

LEAST_MS = 20


def long_enough(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> CheckResult | None:
    """Check every rank's windows; there is nothing to check of a program without any."""
    lengths = [sum(window.wall_ns for window in rank.windows) / 1e6 for rank in ranks if rank.windows]
    if not lengths:
        return None
    return min(lengths) >= LEAST_MS, f"the windows took {min(lengths):.0f} ms, expected {LEAST_MS} ms at least"


LONG_ENOUGH = TrialCheck(long_enough)
