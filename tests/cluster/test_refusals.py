"""Bad experiments, as `kubectl apply` meets them: refused by the API server, or by a condition soon after.

Each case names the field that its message has to name.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.applied import Applied, manifest
from tests.cluster.operator_process import OperatorProcess
from tests.waiting import eventually
from tools.devcluster.tier import Tier

Tree = dict[str, Any]
GONE = object()


def put(path: str, value: object) -> Callable[[Tree], None]:
    """Set one value by its path, or remove it with GONE."""

    def change(tree: Tree) -> None:
        *outer, last = path.split("/")
        for part in outer:
            tree = tree.setdefault(part, {})
        if value is GONE:
            tree.pop(last, None)
        else:
            tree[last] = value

    return change


def several(*changes: Callable[[Tree], None]) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        for each in changes:
            each(tree)

    return change


CASES: dict[str, tuple[str, Callable[[Tree], None]]] = {
    "a name in capitals": ("name", put("metadata/name", "Resnet")),
    "a name too long": ("metadata.name", put("metadata/name", "x" * 41)),
    "no spec": ("spec", put("spec", GONE)),
    "an unknown field": ("spec.worklod", put("spec/worklod", {})),
    "a misspelled placeholder": (
        "spec.workload.command[1]",
        put("spec/workload", {"program": "custom", "command": ["x", "{batch}"]}),
    ),
    "a pattern without a time": (
        "spec.workload.log.pattern",
        put("spec/workload", {"program": "custom", "command": ["x"], "instrument": "log", "log": {"pattern": "a"}}),
    ),
    "an unknown field inside": ("spec.scaling.worker", put("spec/scaling/worker", 2)),
    "no worker counts": ("spec.scaling.workers", put("spec/scaling/workers", GONE)),
    "an empty list of workers": ("spec.scaling.workers", put("spec/scaling/workers", [])),
    "no workers": ("spec.scaling.workers", put("spec/scaling/workers", [0, 1])),
    "too many workers": ("spec.scaling.workers", put("spec/scaling/workers", [1, 65537])),
    "a worker count as text": ("spec.scaling.workers", put("spec/scaling/workers", ["two"])),
    "a worker count twice": ("scaling.workers", put("spec/scaling/workers", [1, 2, 2])),
    "an unknown mode": ("spec.scaling.modes", put("spec/scaling/modes", ["medium"])),
    "a mode twice": ("scaling.modes", put("spec/scaling/modes", ["weak", "weak"])),
    "weak without its batch": ("scaling.batch.perWorker", put("spec/scaling/batch", {"global": 64})),
    "strong without its batch": ("scaling.batch.global", put("spec/scaling/modes", ["strong"])),
    "a batch that does not divide": (
        "spec.scaling.batch.global",
        several(put("spec/scaling/modes", ["strong"]), put("spec/scaling/batch", {"global": 7})),
    ),
    "a negative batch": ("spec.scaling.batch.perWorker", put("spec/scaling/batch/perWorker", -1)),
    "a baseline that is not measured": ("baseline", put("spec/scaling/baseline", 3)),
    "layouts and workers per node": ("placement", put("spec/placement/layouts", ["1x2"])),
    "a layout that is none": ("spec.placement.layouts", put("spec/placement", {"layouts": ["two by two"]})),
    "a layout of no worker count": ("spec.placement.layouts", put("spec/placement", {"layouts": ["1x1", "2x4"]})),
    "workers that fill no nodes": (
        "spec.scaling.workers",
        several(put("spec/scaling/workers", [1, 3]), put("spec/placement/workersPerNode", 2)),
    ),
    "pods that share no node's workers": (
        "spec.placement.podsPerNode",
        several(put("spec/placement", {"workersPerNode": 2, "podsPerNode": 2})),
    ),
    "an unknown program": ("spec.workload.program", put("spec/workload/program", "jax")),
    "an unknown model": ("spec.workload.model", put("spec/workload/model", "resnet51")),
    "a custom program without a command": ("command", put("spec/workload/program", "custom")),
    "an unknown precision": ("spec.workload.precision", put("spec/workload/precision", "fp8")),
    "a strategy of another program": ("spec.workload.strategy", put("spec/workload/strategy", "mirrored")),
    "an unknown axis": ("spec.matrix", put("spec/matrix", {"presicion": ["bf16"]})),
    "an axis value that does not fit": ("spec.matrix.precision", put("spec/matrix", {"precision": ["bf17"]})),
    "an exclusion that matches nothing": ("spec.exclude", put("spec/exclude", [{"workers": 9}])),
    "more than ten thousand trials": ("spec", put("spec/matrix", {"env.A": [str(n) for n in range(999)]})),
    "repetitions of none": ("spec.measure.repetitions", put("spec/measure/repetitions", 0)),
    "warm-up without an end": ("maxWarmupSteps", put("spec/measure/maxWarmupSteps", 1)),
    "accuracy on random data": ("spec.workload.data.source", put("spec/measure/accuracy", {"epochs": 1})),
    "a price below nothing": ("spec.cost.perWorkerHour", put("spec/cost", {"perWorkerHour": -1})),
    "an unknown currency": ("spec.cost.currency", put("spec/cost", {"perWorkerHour": 1, "currency": "euro"})),
    "an unknown runner": ("spec.runner", put("spec/runner", "SparkJob")),
    "a negative deadline": ("spec.deadlineSeconds", put("spec/deadlineSeconds", -5)),
    "suspend as text": ("spec.suspend", put("spec/suspend", "yes please")),
    "a node selector that is no label": ("spec.pod.nodeSelector", put("spec/pod", {"nodeSelector": {"a b": "c"}})),
    "a size that is none": ("spec.pod.sharedMemory", put("spec/pod", {"sharedMemory": "much"})),
    "an unknown nesting": ("spec.placement.nesting", put("spec/placement/nesting", "maybe")),
    "a pool in capitals": ("spec.pool", put("spec/pool", "Big Pool")),
}


@pytest.fixture(scope="module")
def served(tier: Tier) -> Iterator[str]:
    namespace = tier.namespace("refusals")
    with OperatorProcess(tier, namespace, settings={"POOLS": "default=100"}):
        yield namespace


@pytest.mark.parametrize("case", CASES)
def test_a_bad_experiment_is_refused_and_its_field_named(tier: Tier, served: str, case: str) -> None:
    field, change = CASES[case]
    tree = copy.deepcopy(manifest(served, name=f"r{list(CASES).index(case)}", repetitions=6))
    change(tree)
    said = refusal(tier, tree)
    assert field in said, said


def refusal(tier: Tier, tree: Tree) -> str:
    """What the API server says, or soon the condition."""
    try:
        tier.kubectl("apply", "-f", "-", text=json.dumps(tree))
    except subprocess.CalledProcessError as error:
        return str(error.stderr)
    applied = Applied(tier, tree["metadata"]["namespace"], tree["metadata"]["name"])

    def refused() -> bool:
        return any(
            each["type"] == "Accepted" and each["status"] == "False" for each in applied.status.get("conditions") or ()
        )

    eventually(refused, "a condition", log=lambda: str(applied.status))
    assert applied.status["phase"] == "Failed"
    assert applied.trials() == {}
    return next(str(each["message"]) for each in applied.status["conditions"] if each["type"] == "Accepted")


def test_a_refused_experiment_may_be_corrected(tier: Tier, served: str) -> None:
    tree = manifest(served, name="corrected", workload={"model": "resnet51"})
    assert "spec.workload.model" in refusal(tier, tree)
    tree["spec"]["workload"]["model"] = "resnet50"
    tier.kubectl("apply", "-f", "-", text=json.dumps(tree))
    corrected = Applied(tier, served, "corrected")
    eventually(lambda: corrected.status.get("total") == 2, "its plan")
    assert corrected.final()["phase"] == "Succeeded"


def test_parameters_and_a_log_are_taken_and_the_point_is_reported(tier: Tier, served: str) -> None:
    """Values of every kind pass the CRD, and the status says that nothing of the run was observed."""
    parameters = {"pause": 1.5, "name": "a", "on": True}
    log = {"instrument": "log", "log": {"format": "megatron", "tokensPerSample": "{tokens}"}}
    workload = {"program": "custom", "command": ["x", "{pause}"], "parameters": parameters, **log}
    tree = manifest(served, name="reported", workload=workload, matrix={"parameters.tokens": [64, 128]})
    tier.kubectl("apply", "-f", "-", text=json.dumps(tree))
    applied = Applied(tier, served, "reported")
    assert applied.final()["phase"] == "Succeeded"
    assert [status["unproved"] for status in applied.trials().values()] == [["Reported"]] * 4


def test_there_are_at_least_forty() -> None:
    assert len(CASES) >= 40
