"""A good run of two ranks with one thing changed, and what is said of it."""

from typing import Any

from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.api.rank_records import GOOD, rank_record, trial

TWO = trial()
GPU = {"device": "GPU-0", "backend": "nccl"}


def of(verdict: Verdict, reason: str) -> tuple[bool | None, str]:
    (check,) = [check for check in verdict.checks if check.name == reason]
    return check.passed, check.detail


def invalid(ranks: dict[int, RankRecord], of: TrialSpec = TWO, outcome: Outcome = GOOD) -> tuple[str | None, str]:
    verdict = judge(of, ranks, outcome)
    assert verdict.phase is TrialPhase.invalid
    return verdict.reason, verdict.message


def two(**changes: Any) -> dict[int, RankRecord]:
    """A good run of two ranks, of which the second is changed."""
    return {0: rank_record(0, TWO), 1: rank_record(1, TWO, **changes)}
