"""A record's payload -> a verdict: as a function or, for a large one, as a process: ``python -m ...judge``.

The process reads a line of JSON and the payload from stdin, and writes the judgment as JSON.
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
class Judgment:
    """The verdict, and what the record lists as left out."""

    verdict: Verdict
    left_out: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "phase": verdict.phase.value,
            "reason": verdict.reason,
            "message": verdict.message,
            "checks": [check.wire() for check in verdict.checks],
            "leftOut": list(self.left_out),
        }

    @staticmethod
    def from_wire(wire: Mapping[str, Any]) -> Judgment:
        checks = tuple(Check.model_validate(check) for check in wire["checks"])
        verdict = Verdict(TrialPhase(wire["phase"]), wire["reason"], wire["message"], checks)
        return Judgment(verdict, tuple(wire["leftOut"]))


def judge_payload(trial: TrialSpec, payload: bytes | None, outcome: Outcome) -> Judgment:
    """The verdict on one attempt; a missing, foreign or damaged payload counts as no records."""
    if payload is None:
        return Judgment(_with_reason(judge(trial, {}, outcome), outcome))
    try:
        envelope = unseal_ranks(payload)
        if (envelope.trial, envelope.attempt) != (trial.name, outcome.attempt):
            raise EnvelopeError(f"the record belongs to attempt {envelope.attempt} of {envelope.trial}")
    except EnvelopeError as error:
        outcome = outcome.model_copy(update={"message": outcome.message or str(error)})
        return Judgment(_with_reason(judge(trial, {}, outcome), outcome))
    return Judgment(judge(trial, envelope.ranks, outcome), envelope.left_out)


def _with_reason(verdict: Verdict, outcome: Outcome) -> Verdict:
    """Add why there are no records to the verdict on a run that ended well."""
    if verdict.phase is not TrialPhase.invalid or not outcome.message:
        return verdict
    return Verdict(verdict.phase, verdict.reason, f"{verdict.message}: {outcome.message}", verdict.checks)


def main() -> int:
    """Judge the attempt on stdin."""
    request = json.loads(sys.stdin.buffer.readline())
    payload = sys.stdin.buffer.read(request["bytes"])
    trial, outcome = TrialSpec.model_validate(request["trial"]), Outcome.model_validate(request["outcome"])
    json.dump(judge_payload(trial, payload, outcome).wire(), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
