"""Every strategy of the torch program on real processes, and faults that its checks must see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.features.accuracy.facts import EVALUATIONS
from scalecurve_api.features.parameter_servers.facts import PUSHES, SERVERS
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.spec.trial import TrialSpec
from tests.worker.trial_series import Results, run_series
from tests.worker.worker_ranks import SCRIPTS, make_trial

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
    """One trial: its workload, what is broken, how long it is measured, and the batch of a worker."""

    name: str
    workload: Mapping[str, Any]
    fault: str = "none"
    measure: Mapping[str, Any] | None = None
    batch: int = 4

    def trial(self, workers: int) -> TrialSpec:
        """The case as a point of so many workers."""
        made = make_trial(workers, workload=self.workload, measure=self.measure)
        sizes = {"batch_per_worker": self.batch, "global_batch": self.batch * workers}
        return made.model_copy(update={"point": made.point.model_copy(update=sizes)})


def run(out: Path, workers: int, cases: list[Case]) -> Results:
    """Every case's records and verdict."""
    trials = {case.name: (case.fault, case.trial(workers)) for case in cases}
    assert len(trials) == len(cases), "two cases of one name"
    return run_series(out, workers, SCRIPTS / "strategies.py", trials)


def verdicts(results: Results) -> dict[str, tuple[str | None, str]]:
    return {name: (verdict.reason, verdict.message) for name, (_, verdict) in results.items()}


def valid(results: Results) -> None:
    assert verdicts(results) == dict.fromkeys(results, (None, ""))


BY_BLOCK = {"gradientAccumulation": 2, "channelsLast": True}


def served(**asked: Any) -> dict[str, Any]:
    """A workload with parameter servers."""
    return {"strategy": "parameter-server", "optimizer": {"momentum": 0.0}, "parameterServer": asked}


def hooked(hook: str) -> Case:
    return Case(hook, {"options": {"commHook": hook}, "data": {"source": "digits"}, **SLOW})


STRATEGIES = [
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
ON_FOUR = ("fsdp-blocks", "zero1", "asynchronous", "synchronous")
"""Shares and servers depend on how many workers there are; nothing else here differs between two and four."""
FAULTS = [
    Case("no-reduction", {**BATCH_NORM, "strategy": "fsdp"}, "no-reduction"),
    Case("own-shares", {"strategy": "fsdp"}, "own-shares"),
    Case("one-dimension", {"strategy": "fsdp", "options": {"shard": 1}}, "one-dimension"),
    Case("no-replicas", {"strategy": "fsdp", "options": {"shard": 1}}, "no-replicas"),
    Case("own-gradients", {"options": {"commHook": "one-bit"}}, "own-gradients"),
    Case("no-broadcast", {"strategy": "zero1"}, "no-broadcast"),
    Case("ddp-alone", {}, "no-reduction"),
    Case("no-wrapper", {"strategy": "fsdp"}, "no-wrapper"),
    Case("samples", {}, "samples"),
    Case("lost", served(), "lost-push"),
]
DIGITS: dict[str, Any] = {"data": {"source": "digits"}, **SLOW}
# Windows without communication would take batches of their own.
STRAIGHT = {"exposedCommunication": False}
TRAINED_AS_DDP = [
    Case("digits-ddp", DIGITS, measure=STRAIGHT),
    Case("digits-served", {**DIGITS, **served(updates="synchronous"), **SLOW}, measure=STRAIGHT),
]
SLOW_WORKER = Case("slow", served(updates="synchronous", backupWorkers=1), "slow-rank-1")
ACCURACY = {"accuracy": {"epochs": 2}}
TO_ACCURACY = [
    Case("accurate-fsdp", {**DIGITS, "strategy": "fsdp"}, measure=ACCURACY, batch=32),
    Case("accurate-zero1", {**DIGITS, "strategy": "zero1"}, measure=ACCURACY, batch=32),
    Case("accurate-served", {**DIGITS, **served(updates="synchronous"), **SLOW}, measure=ACCURACY, batch=32),
]
NO_HOOK = hooked("none")
GATHERED = hooked("top-k")


def names(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run(tmp_path_factory.mktemp("one"), 1, STRATEGIES)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Results:
    hooks = [NO_HOOK, *(hooked(hook) for hook in HOOKS)]
    cases = [*STRATEGIES, *hooks, *TRAINED_AS_DDP, SLOW_WORKER, *TO_ACCURACY, *FAULTS]
    return run(tmp_path_factory.mktemp("two"), 2, cases)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """More workers than the cores of a small machine: for function only."""
    cases = [case for case in STRATEGIES if case.name in ON_FOUR]
    return run(tmp_path_factory.mktemp("four"), 4, [*cases, NO_HOOK, GATHERED])


@pytest.mark.parametrize("workers", ["one", "two"])
def test_every_strategy_runs_and_passes_its_checks(request: pytest.FixtureRequest, workers: str) -> None:
    found: Results = request.getfixturevalue(workers).of(*names(STRATEGIES))
    valid(found)
    tokens = found["fsdp-tokens"][0][0]
    assert (tokens.sample_unit, tokens.options["fsdpParameterType"]) == ("tokens", "bfloat16")
    # Two blocks and the root; a tiny model's two blocks are one group of a MiB.
    assert tokens.options["fsdpGroups"] == 3
    assert found["fsdp-grouped"][0][0].options["fsdpGroups"] == 2
    assert tokens.flops_per_sample is not None
    # 65 x 5 numbers of the head alone are reduced, and with ZeRO broadcast once more.
    statistics = sum(2 * 4 * channels + 8 for channels in [16] * 7 + [32] * 6 + [64] * 6)
    for name, times in (("frozen", 1), ("frozen-zero1", 2)):
        (first, *_), _ = found[name]
        assert first.traffic is not None
        # Beside them torch broadcasts the statistics of 19 frozen batch norms.
        assert first.traffic.payload_bytes == times * 4 * 65 * 5 + statistics
        assert (len(first.frozen_checksums), len(set(first.frozen_checksums))) == (2, 1)
    if workers == "two":
        assert "no step without them" in tokens.options["exposedCommunication"]
        assert {window.kind for window in tokens.windows} == {WindowKind.train}
        assert found["ddp"][0][0].exposed_method == "ddp-no-sync"


@pytest.mark.parametrize(("fixture", "workers"), [("one", 1), ("two", 2), ("four", 4)])
def test_shares_and_servers_add_up_to_the_model(request: pytest.FixtureRequest, fixture: str, workers: int) -> None:
    found: Results = request.getfixturevalue(fixture).of(*ON_FOUR)
    valid(found)
    share = found["fsdp-blocks"][0]
    assert sum(record.shard_elements or 0 for record in share) == share[0].parameters
    assert (share[0].options["fsdpParameterType"], share[0].options["fsdpGroups"]) == ("float32", 10)
    steps = PUSHES.of(found["asynchronous"][0][0]) or 0
    for server in SERVERS.of(found["asynchronous"][0][0]):
        assert server.updates == server.gradients == sum(server.staleness.values()) == workers * steps
        # Each gradient came with a header, and so did the first parameters.
        assert server.received_bytes > 4 * server.parameters * workers * steps
    steps = PUSHES.of(found["synchronous"][0][0]) or 0
    (server,) = SERVERS.of(found["synchronous"][0][0])
    assert (server.updates, server.staleness) == (steps, {"0": workers * steps})
    if workers > 1:
        assert "broadcast of parameters" in found["zero1"][0][0].options["exposedCommunication"]


def test_synchronous_servers_train_as_ddp_does(two: Results) -> None:
    served, ddp = (two[f"digits-{name}"][0][1].last_loss for name in ("served", "ddp"))
    assert served == pytest.approx(ddp, rel=1e-3)


def test_a_backup_worker_spares_the_others_a_slow_one(two: Results) -> None:
    (first, second), verdict = two["slow"]
    assert (verdict.reason, verdict.message) == (None, "")
    (server,) = SERVERS.of(first)
    assert server.dropped > 0
    assert server.updates == server.gradients - server.dropped
    mine, other = (sum(window.samples for window in record.windows) for record in (first, second))
    # Rank 1 waits before each push until rank 0's has made the update.
    assert (mine, other) == (2 * 3 * 4, 0)


@pytest.mark.parametrize(("fixture", "workers", "hooks"), [("two", 2, HOOKS), ("four", 4, ("top-k",))])
def test_hooks_send_less_and_keep_replicas_equal(
    request: pytest.FixtureRequest, fixture: str, workers: int, hooks: tuple[str, ...]
) -> None:
    found: Results = request.getfixturevalue(fixture).of("none", *hooks)
    valid(found)
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


def test_faults_are_seen(two: Results) -> None:
    found = two.of(*names(FAULTS))
    said = verdicts(found)
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
    pushes = PUSHES.of(found["lost"][0][0]) or 0
    assert said["lost"] == (
        "ReplicasDiverged",
        f"parameter server 0 took {pushes} gradients, but the workers sent {2 * pushes}",
    )


@pytest.mark.parametrize("case", names(TO_ACCURACY))
def test_training_to_accuracy(two: Results, case: str) -> None:
    (first, second), verdict = two[case]
    assert verdict.reason is None
    assert [row.epoch for row in EVALUATIONS.of(first)] == [1, 2]
    assert EVALUATIONS.of(first)[1].accuracy > 0.8
    assert not EVALUATIONS.of(second)
