"""A record's payload -> a verdict: as a function, and as a process that answers one request after the other.

Pods may print anything. What they print is opened only in such a process, which has limits on memory and processor
time (``judge_process``): whatever it does to that process, the operator goes on.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from scalecurve_api.record.assemble import combine_windows, summarize
from scalecurve_api.record.checks.proof import not_shown
from scalecurve_api.record.envelope import Envelope, EnvelopeError, unseal_ranks
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import InvalidReason, TrialPhase, TrialSpec

SIZES = struct.Struct("<II")
"""Of a request: bytes of its JSON, then of the payload. Of an answer: bytes of its JSON, and 0"""
_MAX_TEXT, _MAX_LEFT_OUT = 4096, 64
_RELATIVE = 1e-6
_THROUGHPUT = ("samples", "wall_s", "throughput")


@dataclass(frozen=True)
class Judgment:
    """The verdict without its checks, what the record lists as dropped, and what was not shown of the program."""

    verdict: Verdict
    left_out: tuple[str, ...] = ()
    unreadable: str | None = None
    """why what the ranks left cannot be used"""
    summary: Mapping[str, Any] | None = None
    """the record's, with the step times that its pod announced, as JSON"""
    unproved: tuple[InvalidReason, ...] = ()

    @staticmethod
    def of(
        verdict: Verdict,
        left_out: tuple[str, ...] = (),
        unreadable: str | None = None,
        summary: Summary | None = None,
    ) -> Judgment:
        texts = tuple(text[:_MAX_TEXT] for text in left_out[:_MAX_LEFT_OUT])
        short = Verdict(verdict.phase, verdict.reason, verdict.message[:_MAX_TEXT], ())
        return Judgment(short, texts, unreadable, summary.wire() if summary is not None else None)

    def wire(self) -> dict[str, Any]:
        verdict = self.verdict
        return {
            "phase": verdict.phase.value,
            "reason": verdict.reason,
            "message": verdict.message,
            "leftOut": list(self.left_out),
            "unreadable": self.unreadable,
            "summary": self.summary,
            "unproved": list(self.unproved),
        }

    @staticmethod
    def from_wire(wire: Mapping[str, Any]) -> Judgment:
        verdict = Verdict(TrialPhase(wire["phase"]), wire["reason"], wire["message"], ())
        unproved = tuple(InvalidReason(name) for name in wire["unproved"])
        return Judgment(verdict, tuple(wire["leftOut"]), wire["unreadable"], wire["summary"], unproved)


def judge_payload(trial: TrialSpec, payload: bytes, outcome: Outcome, announced: Summary | None = None) -> Judgment:
    """The verdict on one attempt, whose payload may be foreign or damaged, or other than its pod ``announced``."""
    try:
        envelope = unseal_ranks(payload, most_ranks=max(16, 2 * trial.point.workers))
        if (envelope.trial, envelope.attempt) != (trial.name, outcome.attempt):
            raise EnvelopeError(f"the record belongs to attempt {envelope.attempt} of {envelope.trial[:253]}")
        summary = _summary(trial, envelope, announced)
    except EnvelopeError as error:
        return unreadable(trial, outcome, str(error))
    verdict = judge(trial, envelope.ranks, outcome)
    unproved = not_shown(trial, verdict.phase, verdict.checks)
    return replace(Judgment.of(verdict, envelope.left_out, summary=summary), unproved=unproved)


def judge_missing(trial: TrialSpec, outcome: Outcome) -> Judgment:
    """The verdict on one attempt that left no record; on a run that ended well it says why there is none."""
    verdict = judge(trial, {}, outcome)
    if verdict.phase is TrialPhase.invalid and outcome.unreadable is None and outcome.message:
        message = f"{verdict.message}: {outcome.message}"
        verdict = Verdict(verdict.phase, verdict.reason, message, verdict.checks)
    return Judgment.of(verdict)


def unreadable(trial: TrialSpec, outcome: Outcome, problem: str) -> Judgment:
    """The verdict on an attempt whose payload cannot be used."""
    problem = problem[:_MAX_TEXT]
    return Judgment.of(judge(trial, {}, outcome.model_copy(update={"unreadable": problem})), unreadable=problem)


def _summary(trial: TrialSpec, envelope: Envelope, announced: Summary | None) -> Summary | None:
    """The summary for the trial's status, if its pod announced one: the record's, not what the pod says.

    Raises:
        EnvelopeError: the throughput is not the record's.
    """
    ordered = [envelope.ranks[rank] for rank in sorted(envelope.ranks)]
    try:
        recorded = summarize(trial, ordered, combine_windows(ordered), {})
    except (ValidationError, OverflowError) as error:
        raise EnvelopeError(f"the record's sums exceed what can be kept: {type(error).__name__}") from error
    if announced is None:
        return None
    for name in _THROUGHPUT:
        said, value = getattr(announced, name), getattr(recorded, name, None)
        if value is None or not math.isclose(said, value, rel_tol=_RELATIVE):
            raise EnvelopeError(f"the termination message contradicts the record: {name} {said}, recorded {value}")
    # Only journals, which are not opened here, tell the times of single steps.
    return recorded.model_copy(update={"step": announced.step}) if recorded is not None else None


def _answer(request: Mapping[str, Any], payload: bytes) -> dict[str, Any]:
    trial, outcome = TrialSpec.model_validate(request["trial"]), Outcome.model_validate(request["outcome"])
    announced = Summary.model_validate(request["announced"]) if request["announced"] is not None else None
    try:
        return judge_payload(trial, payload, outcome, announced).wire()
    except MemoryError:
        raise
    except Exception as error:
        return unreadable(trial, outcome, f"{type(error).__name__}: {error}").wire()


def limit(memory_bytes: int) -> None:
    """No more memory than this, no file, no core dump; a signal to the terminal's group is the operator's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (0, 0))


def main(memory_bytes: int, cpu_s: int) -> int:
    """Answer requests on the socket that is stdin until it is closed."""
    limit(memory_bytes)
    with socket.socket(fileno=0) as connection, connection.makefile("rb") as requests:
        while opening := requests.read(SIZES.size):
            size, payload_size = SIZES.unpack(opening)
            request, payload = json.loads(requests.read(size)), requests.read(payload_size)
            # Counted over the life of the process; the kernel ends it at the soft limit.
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + cpu_s, resource.RLIM_INFINITY))
            answer = json.dumps(_answer(request, payload)).encode()
            connection.sendall(SIZES.pack(len(answer), 0) + answer)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
