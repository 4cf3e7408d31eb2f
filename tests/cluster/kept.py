"""An experiment in a cluster as an operator would have left it, written by the test itself as the contract says."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any

from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import digest, seal, unseal
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.object_names import (
    OUTCOME_KEY,
    RECORD_KEY,
    ROLE_LABEL,
    labels,
    record_name,
    trial_name,
)
from scalecurve_api.spec.trial import FailedReason, TrialPhase, TrialSpec
from tools.devcluster.player.record import Place, play_record
from tools.devcluster.player.script import Scenario as Play
from tools.devcluster.rest import MERGE
from tools.devcluster.tier import Tier

GROUP = "/apis/scalecurve.dev/v1alpha1"
BEGIN_NS = 1_800_000_000_000_000_000
PART = 900_000


def request(name: str, **spec: Any) -> dict[str, Any]:
    """Four trials: weak, one and two workers, twice each."""
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 8}},
            "workload": {"program": "torch", "model": "resnet18", "device": "cpu"},
            "measure": {"warmupSteps": 3, "windows": 2, "stepsPerWindow": 10, "repetitions": 2},
            **spec,
        },
    }


@dataclass
class Kept:
    """One experiment of a namespace."""

    tier: Tier
    namespace: str
    experiment: ScalingExperiment
    trials: dict[str, TrialSpec] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.experiment.metadata.name

    def path(self, plural: str, name: str = "", sub: str = "", api: str = GROUP) -> str:
        whole = f"{api}/namespaces/{self.namespace}/{plural}"
        return "/".join(part for part in (whole, name, sub) if part)

    def report(self, **status: Any) -> None:
        """Write into the experiment's status."""
        self.tier.rest.call(
            "PATCH", self.path("scalingexperiments", self.name, "status"), {"status": status}, kind=MERGE
        )

    def begin(self, name: str, phase: TrialPhase = TrialPhase.running) -> str:
        """A trial that runs; the object's name."""
        trial = self.trials[name]
        # The spec's name may be no name at all: what a hostile cluster holds still has an object's name.
        there = trial_name(self.name, re.sub(r"[^a-z0-9]+", "-", name.lower())[:20].strip("-") or "x")
        self.tier.rest.create(
            self.path("scalingtrials"),
            {
                "apiVersion": "scalecurve.dev/v1alpha1",
                "kind": "ScalingTrial",
                "metadata": {"name": there, "labels": labels(self.name, there)},
                "spec": trial.wire(),
            },
        )
        self._status(there, {"phase": phase.value, "attempts": 1, "job": f"{there}-a1"})
        return there

    def begin_ns(self, name: str) -> int:
        """When a trial began: one after another, an hour each."""
        return BEGIN_NS + list(self.trials).index(name) * 3_600 * 10**9

    def end(
        self,
        name: str,
        play: Play = Play.succeed,
        failure: FailedReason | None = None,
        lost: str = "",
        attempt: int = 1,
        budget: int = 1 << 22,
        part: int = PART,
    ) -> list[str]:
        """A trial that has ended with a record, or without one (``failure``, ``lost``); the names of its ConfigMaps."""
        trial = self.trials[name]
        there = self.begin(name)
        outcome = Outcome(engine="kubernetes", attempt=attempt, failure=failure, message="said" if failure else lost)
        payload = b""
        if failure is None and not lost:
            played = play_record(trial, [Place("pod-0", "node-0")], self.begin_ns(name), play)
            payload = seal(name, attempt, played.ranks, played.journals, budget)
        parts = [payload[at : at + part] for at in range(0, len(payload), part)] or [b""]
        maps = [record_name(there, attempt, payload, index) for index in range(len(parts))]
        for index, (map_name, data) in enumerate(zip(maps, parts, strict=True)):
            body: dict[str, Any] = {
                "metadata": {"name": map_name, "labels": labels(self.name, there, attempt) | {ROLE_LABEL: "record"}}
            }
            if data:
                body["binaryData"] = {RECORD_KEY: base64.b64encode(data).decode()}
            if index == 0:
                body["data"] = {OUTCOME_KEY: canonical_json(outcome.wire())}
            self.tier.rest.create(self.path("configmaps", api="/api/v1"), body)
        envelope = unseal(payload) if payload else None
        record = assemble(
            trial, envelope.ranks if envelope else {}, envelope.journals if envelope else {}, outcome
        ).record
        past = {"attempt": attempt, "phase": record.phase.value}
        status: dict[str, Any] = {
            "phase": record.phase.value,
            "attempts": attempt,
            "history": [past],
            "record": {"sha256": digest(payload), "bytes": len(payload), "configMaps": maps},
        }
        if record.reason:
            status |= {"reason": record.reason, "message": record.message}
        if record.summary:
            status["summary"] = record.summary.wire()
        self._status(there, status)
        return maps

    def damage(self, config_map: str) -> None:
        """Change one byte of a part."""
        path = self.path("configmaps", config_map, api="/api/v1")
        data = bytearray(base64.b64decode(self.tier.rest.call("GET", path)["binaryData"][RECORD_KEY]))
        data[len(data) // 2] ^= 1
        body = {"binaryData": {RECORD_KEY: base64.b64encode(data).decode()}}
        self.tier.rest.call("PATCH", path, body, kind=MERGE)

    def remove(self, config_map: str) -> None:
        """Delete a part."""
        self.tier.rest.raw("DELETE", self.path("configmaps", config_map, api="/api/v1"))

    def _status(self, trial: str, status: dict[str, Any]) -> None:
        self.tier.rest.call("PATCH", self.path("scalingtrials", trial, "status"), {"status": status}, kind=MERGE)


def keep(tier: Tier, namespace: str, name: str, **spec: Any) -> Kept:
    """Create the experiment; nothing of it has begun."""
    path = f"{GROUP}/namespaces/{namespace}/scalingexperiments"
    made = tier.rest.call("POST", path, request(name, **spec))
    experiment = ScalingExperiment.model_validate(made)
    return Kept(tier, namespace, experiment, {trial.name: trial for trial in make_plan(experiment).trials})
