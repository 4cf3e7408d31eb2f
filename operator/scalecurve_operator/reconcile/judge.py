"""A record's payload -> a verdict; as a function, and as a process for what is large: ``python -m ...judge``.

The process reads a line of JSON and the payload from stdin, and writes the judgement as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scalecurve_api.record.envelope import EnvelopeError, unseal_ranks
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Check
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec


@dataclass(frozen=True)
class Judgement:
    """The verdict, and what the record says was left out of it."""

    verdict: Verdict
    left_out: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        """As JSON."""
        verdict = self.verdict
        return {
            "phase": verdict.phase.value,
            "reason": verdict.reason,
            "message": verdict.message,
            "checks": [check.wire() for check in verdict.checks],
            "leftOut": list(self.left_out),
        }

    @staticmethod
    def from_wire(wire: Mapping[str, Any]) -> Judgement:
        """The inverse of ``wire``."""
        checks = tuple(Check.model_validate(check) for check in wire["checks"])
        verdict = Verdict(TrialPhase(wire["phase"]), wire["reason"], wire["message"], checks)
        return Judgement(verdict, tuple(wire["leftOut"]))


def judge_payload(trial: TrialSpec, payload: bytes | None, outcome: Outcome) -> Judgement:
    """The verdict on one attempt; a payload that is missing, foreign or damaged counts as no records."""
    if payload is None:
        return Judgement(_with_reason(judge(trial, {}, outcome), outcome))
    try:
        envelope = unseal_ranks(payload)
        if (envelope.trial, envelope.attempt) != (trial.name, outcome.attempt):
            raise EnvelopeError(f"the record is of {envelope.trial}, attempt {envelope.attempt}")
    except EnvelopeError as error:
        outcome = outcome.model_copy(update={"message": outcome.message or str(error)})
        return Judgement(_with_reason(judge(trial, {}, outcome), outcome))
    return Judgement(judge(trial, envelope.ranks, outcome), envelope.left_out)


def _with_reason(verdict: Verdict, outcome: Outcome) -> Verdict:
    """Say why there are no records, where the run itself ended well."""
    if verdict.phase is not TrialPhase.invalid or not outcome.message:
        return verdict
    return Verdict(verdict.phase, verdict.reason, f"{verdict.message}: {outcome.message}", verdict.checks)


def main() -> int:
    """Judge what stdin brings."""
    request = json.loads(sys.stdin.buffer.readline())
    payload = sys.stdin.buffer.read(request["bytes"])
    trial, outcome = TrialSpec.model_validate(request["trial"]), Outcome.model_validate(request["outcome"])
    json.dump(judge_payload(trial, payload, outcome).wire(), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
