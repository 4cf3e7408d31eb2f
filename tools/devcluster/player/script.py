"""What a played trial does, as its experiment says: `workload.env` of PLAY and PLAY_SECONDS.

PLAY: oom@workers=4,fail@attempt=1,succeed      the first whose condition holds; without any: succeed
      oom@ladder=2x128                         at two workers of 128 samples each
PLAY_SECONDS: "2"                               from all pods running to their end; 0 when left out
PLAY_RECORD: base64 of zlib                     the payload in the log, whatever it is
PLAY_SUMMARY: '{"samples": 1}'                  fields of the summary in the termination message
PLAY_FLOOD: "50"                                MiB of short lines before the record
PLAY_SLOW: "node-7*1.5,node-1~node-2*2"         a node, or a link between two, and by how much a step takes longer
PLAY_PRINT: "1"                                 its variables with Secrets, as the pod entry masks them
"""

import base64
import json
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scalecurve_api.record import envelope
from scalecurve_api.spec.trial import TrialSpec


class Scenario(StrEnum):
    """How an attempt ends. From `wrong-world` to `not-finite` every process exits with 0 and the record is wrong."""

    succeed = "succeed"
    fail = "fail"
    """one process exits with 1 and says why"""
    oom = "oom"
    evict = "evict"
    hang = "hang"
    image_pull = "image-pull"
    no_record = "no-record"
    torn_record = "torn-record"
    other_record = "other-record"
    """whole, but not the one that the termination message announces"""
    no_log = "no-log"
    """the kubelet cannot read it"""
    wrong_world = "wrong-world"
    wrong_placement = "wrong-placement"
    diverged = "diverged"
    not_finite = "not-finite"


@dataclass(frozen=True)
class Script:
    """One attempt's part."""

    outcome: Scenario
    seconds: float


def script(environment: Mapping[str, str], trial: TrialSpec, attempt: int) -> Script:
    """What this attempt is to do.

    Raises:
        ValueError: when PLAY names an outcome or a condition that there is not.
    """
    seconds = float(environment.get("PLAY_SECONDS") or 0)
    facts = {
        "workers": trial.point.workers,
        "nodes": trial.point.nodes,
        "mode": trial.point.mode.value,
        "ladder": f"{trial.point.workers}x{trial.point.batch_per_worker}",
        "repetition": trial.repetition,
        "attempt": attempt,
        "trial": trial.name,
    }
    for part in filter(None, environment.get("PLAY", "").replace(" ", "").split(",")):
        name, _, condition = part.partition("@")
        fact, _, wanted = condition.partition("=")
        if condition and fact not in facts:
            raise ValueError(f"PLAY: condition {condition!r}; known are {', '.join(facts)}")
        if not condition or str(facts[fact]) == wanted:
            return Script(Scenario(name), seconds)
    return Script(Scenario.succeed, seconds)


def slowdown(environment: Mapping[str, str], nodes: Collection[str]) -> float:
    """By how much steps take longer than they would on other nodes: as the slowest node or link of these demands.

    Raises:
        ValueError: when PLAY_SLOW is not understood.
    """
    factors = [1.0]
    for part in filter(None, environment.get("PLAY_SLOW", "").split(",")):
        where, _, factor = part.partition("*")
        if set(where.split("~")) <= set(nodes):
            factors.append(float(factor))
    return max(factors)


def forge(environment: Mapping[str, str], payload: bytes, message: str) -> tuple[bytes, str]:
    """The record and the termination message as a hostile program would leave them."""
    wire = json.loads(message)
    if record := environment.get("PLAY_RECORD"):
        payload = zlib.decompress(base64.b64decode(record))
        wire |= {"sha256": envelope.digest(payload), "bytes": len(payload), "summary": None}
    if summary := environment.get("PLAY_SUMMARY"):
        wire["summary"] |= json.loads(summary)
    return payload, json.dumps(wire)
