"""What a played trial does, as its experiment says: `workload.env` of PLAY and PLAY_SECONDS.

PLAY: oom@workers=4,fail@attempt=1,succeed      the first whose condition holds; without any: succeed
PLAY_SECONDS: "2"                               from all pods running to their end; 0 when left out
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

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
