"""Every strategy of the torch program on real processes, and faults that its checks must see."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.verdict import Verdict, judge
from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import SCRIPTS, make_trial, records

# Many processes that load torch: minutes on cores that others use too.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(1200)]

BATCH_NORM = {"model": "resnet20", "data": {"shape": [3, 8, 8], "classes": 5}}
TOKENS = {"model": "gpt2_tiny", "data": {}, "precision": "bf16"}
SLOW = {"optimizer": {"learningRate": 0.02}}
HOOKS = ("fp16", "bf16", "powersgd", "top-k", "eight-bit", "one-bit")
MLP = 64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10
"""Parameters of the multilayer perceptron on digits."""


@dataclass(frozen=True)
class Case:
    """One trial: its workload, what is broken, and how long it is measured."""

    name: str
    workload: Mapping[str, Any]
    fault: str = "none"
    measure: Mapping[str, Any] | None = None


def run(out: Path, workers: int, cases: list[Case], batch: int = 4) -> dict[str, tuple[list[RankRecord], Verdict]]:
    """Every case's records and verdict, with ``batch`` on each worker; shared cores are not held against them."""
    trials = {case.name: make_trial(workers, workload=case.workload, measure=case.measure) for case in cases}
    sizes = {"batch_per_worker": batch, "global_batch": batch * workers}
    trials = {
        name: trial.model_copy(update={"point": trial.point.model_copy(update=sizes)}) for name, trial in trials.items()
    }
    wire = json.dumps([[case.name, case.fault, trials[case.name].wire()] for case in cases])
    fork_ranks(out, workers, SCRIPTS / "strategies.py", CASES=wire)
    found = {}
    for name, trial in trials.items():
        apart = [
            record.model_copy(
                update={"foreign_load": None, "topology": record.topology.model_copy(update={"cores": [rank]})}
            )
            for rank, record in enumerate(records(out / name, workers))
        ]
        found[name] = (apart, judge(trial, dict(enumerate(apart)), Outcome(engine="local")))
    return found


BY_BLOCK = {"gradientAccumulation": 2, "channelsLast": True}


def served(**asked: Any) -> dict[str, Any]:
    """A workload with parameter servers."""
    return {"strategy": "parameter-server", "optimizer": {"momentum": 0.0}, "parameterServer": asked}


def hooked(hook: str) -> Case:
    return Case(hook, {"options": {"commHook": hook}, "data": {"source": "digits"}, **SLOW})


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_strategy_runs_and_passes_its_checks(tmp_path: Path, workers: int) -> None:
    """Four workers are more than the cores of a small machine: for function only."""
    cases = [
        Case("ddp", {**BATCH_NORM, "options": {"batchNorm": "local"}}),
        Case("fsdp-blocks", {**BATCH_NORM, "strategy": "fsdp", "options": BY_BLOCK}),
        Case("fsdp-tokens", {**TOKENS, "strategy": "fsdp", "optimizer": {"name": "adamw"}}),
        Case("fsdp-grouped", {**TOKENS, "strategy": "fsdp", "options": {"fsdpGroupMb": 1}}),
        Case("zero1", {"strategy": "zero1", "optimizer": {"name": "lars", "learningRate": 1.0}}),
        Case("asynchronous", served(servers=2, stalenessAware=True)),
        Case("synchronous", served(updates="synchronous")),
        Case("frozen", {**BATCH_NORM, "transfer": {"train": "head"}}),
        Case("frozen-zero1", {**BATCH_NORM, "strategy": "zero1", "transfer": {"train": "head"}}),
    ]
    found = run(tmp_path, workers, cases)
    assert {name: (verdict.reason, verdict.message) for name, (_, verdict) in found.items()} == {
        case.name: (None, "") for case in cases
    }
    share = found["fsdp-blocks"][0]
    assert sum(record.shard_elements or 0 for record in share) == share[0].parameters
    assert (share[0].options["fsdpParameterType"], share[0].options["fsdpGroups"]) == ("float32", 10)
    tokens = found["fsdp-tokens"][0][0]
    assert (tokens.sample_unit, tokens.options["fsdpParameterType"]) == ("tokens", "bfloat16")
    # Two blocks and the root; a tiny model's two blocks are one group of a MiB.
    assert tokens.options["fsdpGroups"] == 3
    assert found["fsdp-grouped"][0][0].options["fsdpGroups"] == 2
    assert tokens.flops_per_sample is not None
    steps = found["asynchronous"][0][0].pushes or 0
    for server in found["asynchronous"][0][0].servers:
        assert server.updates == server.gradients == sum(server.staleness.values()) == workers * steps
        # Each gradient came with a header, and so did the first parameters.
        assert server.received_bytes > 4 * server.parameters * workers * steps
    (server,) = found["synchronous"][0][0].servers
    assert (server.updates, server.staleness) == (steps, {"0": workers * steps})
    # 65 x 5 numbers of the head alone are reduced, and with ZeRO broadcast once more.
    statistics = sum(2 * 4 * channels + 8 for channels in [16] * 7 + [32] * 6 + [64] * 6)
    for name, times in (("frozen", 1), ("frozen-zero1", 2)):
        (first, *_), _ = found[name]
        assert first.traffic is not None
        # Beside them torch broadcasts the statistics of 19 frozen batch norms.
        assert first.traffic.payload_bytes == times * 4 * 65 * 5 + statistics
        assert (len(first.frozen_checksums), len(set(first.frozen_checksums))) == (2, 1)
    if workers > 1:
        assert "no step without them" in tokens.options["exposedCommunication"]
        assert {window.kind for window in tokens.windows} == {WindowKind.train}
        assert found["ddp"][0][0].exposed_method == "ddp-no-sync"
        assert "broadcast of parameters" in found["zero1"][0][0].options["exposedCommunication"]


def test_synchronous_servers_train_as_ddp_does(tmp_path: Path) -> None:
    plain = {"data": {"source": "digits"}, **SLOW}
    # Windows without communication would take batches of their own.
    straight = {"exposedCommunication": False}
    cases = [
        Case("ddp", plain, measure=straight),
        Case("served", {**plain, **served(updates="synchronous"), **SLOW}, measure=straight),
    ]
    found = run(tmp_path, 2, cases)
    losses = {name: records[1].last_loss for name, (records, _) in found.items()}
    assert losses["served"] == pytest.approx(losses["ddp"], rel=1e-3)


def test_a_backup_worker_spares_the_others_a_slow_one(tmp_path: Path) -> None:
    case = Case("slow", served(updates="synchronous", backupWorkers=1), "slow-rank-1")
    (first, second), verdict = run(tmp_path, 2, [case])["slow"]
    assert (verdict.reason, verdict.message) == (None, "")
    (server,) = first.servers
    assert server.dropped > 0
    assert server.updates == server.gradients - server.dropped
    mine, other = (sum(window.samples for window in record.windows) for record in (first, second))
    # Rank 1 waits before each push until rank 0's has made the update.
    assert (mine, other) == (2 * 3 * 4, 0)


@pytest.mark.parametrize(("workers", "hooks"), [(2, HOOKS), (4, ("powersgd", "top-k"))])
def test_hooks_send_less_and_keep_replicas_equal(tmp_path: Path, workers: int, hooks: tuple[str, ...]) -> None:
    found = run(tmp_path, workers, [hooked("none"), *(hooked(hook) for hook in hooks)])
    assert {name: (verdict.reason, verdict.message) for name, (_, verdict) in found.items()} == dict.fromkeys(
        found, (None, "")
    )
    plain = found["none"][0][0].traffic
    assert plain is not None
    assert (plain.payload_bytes, plain.wire_bytes) == (4.0 * MLP, 4.0 * MLP * 2 * (workers - 1) / workers)
    # A bucket ends with a block that is not full; the first bucket is the last layers'.
    blocks = -(-MLP // 1024)
    gathered = {
        "top-k": 8 * -(-MLP // 100),
        "eight-bit": blocks * (1024 + 4),
        "one-bit": blocks * (1024 // 8 + 8),
    }
    for hook in hooks:
        sent = found[hook][0][0].traffic
        assert sent is not None
        assert sent.plain_payload_bytes == plain.payload_bytes
        if hook in gathered:
            assert sent.payload_bytes == pytest.approx(gathered[hook], rel=0.02)
            assert sent.wire_bytes == (workers - 1) * sent.payload_bytes
        elif hook == "powersgd":
            # Rank 1: one row and one column of each of three matrices, and the three biases as they are.
            assert sent.payload_bytes == 4 * (64 + 512 + 512 + 512 + 512 + 10 + 512 + 512 + 10)
        else:
            assert sent.payload_bytes == plain.payload_bytes / 2
        assert found[hook][0][0].last_loss == pytest.approx(found["none"][0][0].last_loss, abs=1.0)


def test_faults_are_seen(tmp_path: Path) -> None:
    faults = {
        "no-reduction": Case("no-reduction", {**BATCH_NORM, "strategy": "fsdp"}, "no-reduction"),
        "own-shares": Case("own-shares", {"strategy": "fsdp"}, "own-shares"),
        "one-dimension": Case("one-dimension", {"strategy": "fsdp", "options": {"shard": 1}}, "one-dimension"),
        "no-replicas": Case("no-replicas", {"strategy": "fsdp", "options": {"shard": 1}}, "no-replicas"),
        "own-gradients": Case("own-gradients", {"options": {"commHook": "one-bit"}}, "own-gradients"),
        "no-broadcast": Case("no-broadcast", {"strategy": "zero1"}, "no-broadcast"),
        "ddp-alone": Case("ddp-alone", {}, "no-reduction"),
        "no-wrapper": Case("no-wrapper", {"strategy": "fsdp"}, "no-wrapper"),
        "samples": Case("samples", {}, "samples"),
        "lost": Case("lost", served(), "lost-push"),
    }
    found = run(tmp_path, 2, list(faults.values()))
    said = {name: (verdict.reason, verdict.message) for name, (_, verdict) in found.items()}
    diverged = ("ReplicasDiverged", "parameters of rank 1 differ from the other ranks'")
    # torch keeps gradients that replicas have not reduced, and the optimizer gets none.
    assert said["no-replicas"] == said["no-reduction"]
    assert said["no-reduction"] == ("NotTrained", "no parameter of rank 0, 1 has changed: nothing was trained")
    parameters = found["own-shares"][0][0].parameters
    assert parameters is not None
    assert said["own-shares"] == (
        "ReplicasDiverged",
        f"{2 * parameters} elements of parameters in 2 shards, but the model has {parameters}",
    )
    assert said["own-gradients"] == said["no-broadcast"] == said["ddp-alone"] == diverged
    assert said["one-dimension"] == (
        "ReplicasDiverged",
        f"{parameters} elements of parameters in 2 shards, but 2 copies of the model have {2 * parameters}",
    )
    assert said["no-wrapper"][0] == "WrongStrategy"
    assert said["samples"][0] == "WrongSamples"
    pushes = found["lost"][0][0].pushes or 0
    assert said["lost"] == (
        "ReplicasDiverged",
        f"parameter server 0 took {pushes} gradients, but the workers sent {2 * pushes}",
    )


def test_training_to_accuracy(tmp_path: Path) -> None:
    digits, measure = {"data": {"source": "digits"}, **SLOW}, {"accuracy": {"epochs": 2}}
    cases = [
        Case("fsdp", {**digits, "strategy": "fsdp"}, measure=measure),
        Case("zero1", {**digits, "strategy": "zero1"}, measure=measure),
        Case("served", {**digits, **served(updates="synchronous"), **SLOW}, measure=measure),
    ]
    for (first, second), verdict in run(tmp_path, 2, cases).values():
        assert verdict.reason is None
        assert [row.epoch for row in first.evaluations] == [1, 2]
        assert first.evaluations[1].accuracy > 0.8
        assert second.evaluations == []
