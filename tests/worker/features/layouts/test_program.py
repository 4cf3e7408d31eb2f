"""Layouts of parallelism on real processes: each computes what one process computes, and faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_api.features.layouts.facts import AXIS_TRAFFIC, PIPELINE
from scalecurve_api.programs.degrees import Degrees
from tests.worker.features.layouts.every_layout import BATCH, PICTURES, TEXT, trial
from tests.worker.features.layouts.runs import run, valid
from tests.worker.trial_series import Cases, Results, judged
from tests.worker.worker_ranks import launch, torchrun

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


REPLICAS = {**TEXT, "options": {"gradientAccumulation": 2}}
RECOMPUTED = {**TEXT, "options": {"activationCheckpointing": "full"}, "precision": "bf16"}
COMPILED = {**TEXT, "options": {"compile": True}}
RIGHT: Cases = {
    "replicas": ("none", trial(2, "llama_tiny", REPLICAS, replicate="auto")),
    "tensor": ("none", trial(2, "gpt2_tiny", TEXT, tensor=2)),
    "tensor-bf16": ("none", trial(2, "llama_tiny", RECOMPUTED, tensor=2)),
    "tensor-compiled": ("none", trial(2, "gpt2_tiny", COMPILED, tensor=2)),
    "context": ("none", trial(2, "llama_tiny", TEXT, context=2)),
    "pipeline": ("none", trial(2, "llama_tiny", TEXT, pipeline=2, schedule="gpipe")),
    "experts": ("none", trial(2, "mixture_tiny", TEXT, expert=2)),
    "all-experts": ("none", trial(2, "mixture_tiny", TEXT, replicate="auto")),
    "cnn": ("none", trial(2, "resnet20", PICTURES, pipeline=2, microBatches=2)),
    "interleaved": ("none", trial(2, "resnet20", PICTURES, pipeline=2, schedule="interleaved")),
}
WRONG: Cases = {
    "wrong sharding": ("wrong sharding", trial(2, "gpt2_tiny", TEXT, tensor=2)),
    "wrong sum": ("missing all-reduce", trial(2, "llama_tiny", TEXT, replicate=2)),
    "wrong cnn-sum": ("missing all-reduce", trial(2, "resnet20", PICTURES, replicate=2)),
    "wrong cnn-part": ("dropped micro-batch", trial(2, "resnet20", PICTURES, pipeline=2)),
    "wrong context-sum": ("missing all-reduce", trial(2, "gpt2_tiny", TEXT, context=2)),
    "wrong experts-part": ("dropped micro-batch", trial(2, "mixture_tiny", TEXT, pipeline=2)),
    "wrong tied": ("missing tied sum", trial(2, "llama_tiny", TEXT, pipeline=2)),
    "wrong part": ("dropped micro-batch", trial(2, "llama_tiny", TEXT, pipeline=2)),
    "wrong experts": ("experts not exchanged", trial(2, "mixture_tiny", TEXT, expert=2)),
    "wrong means": ("sums of experts", trial(2, "mixture_tiny", TEXT, expert=2)),
    "wrong accumulated": ("dropped micro-batch", trial(2, "llama_tiny", REPLICAS, replicate=2)),
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All cases of two processes, one after another in the same ones."""
    return run(tmp_path_factory.mktemp("two"), 2, RIGHT | WRONG)


def test_two_processes_of_torchrun(tmp_path: Path) -> None:
    each = trial(2, "gpt2_tiny", TEXT, tensor=2)
    launch(tmp_path, torchrun(2), each)
    valid(Results({"tensor": judged(tmp_path, 2, each)}))


def test_two_processes_train_as_one_does(two: Results) -> None:
    results = two.of(*RIGHT)
    valid(results)
    tensor = {(row.axis, row.kind) for row in AXIS_TRAFFIC.of(results["tensor"][0][0])}
    assert tensor >= {("tensor", "all-gather"), ("tensor", "reduce-scatter")}
    assert {axis for axis, _ in tensor} == {"tensor"}
    sent = [row for row in AXIS_TRAFFIC.of(results["pipeline"][0][0]) if row.kind == "send"]
    # All sequences of the batch in four micro-batches: 32 tokens, 64 wide, in fp32.
    assert [(row.axis, row.calls, row.payload_bytes) for row in sent] == [("pipeline", 4, BATCH * 32 * 64 * 4)]
    observed = PIPELINE.of(results["pipeline"][0][0])
    assert observed is not None
    assert observed == PIPELINE.of(results["pipeline"][0][1])
    assert (observed.schedule, observed.workers, observed.micro_batches) == ("gpipe", 2, 4)
    assert 0 < observed.bubble < 1
    assert all(0 < own <= 1.1 * observed.span_s for own in observed.own_s)
    assert PIPELINE.of(results["tensor"][0][0]) is None
    twice = PIPELINE.of(results["interleaved"][0][0])
    assert twice is not None
    assert twice.stages_per_worker == 2
    assert twice.expected_bubble == pytest.approx(1 / 9)
    # There and back, forward and backward, in each of two layers: two experts a token of half the sequences.
    (exchanged,) = (row for row in AXIS_TRAFFIC.of(results["experts"][0][0]) if row.kind == "all-to-all")
    assert (exchanged.axis, exchanged.calls) == ("expert", 2 * 2 * 2)
    assert exchanged.payload_bytes == 2 * 2 * 2 * (BATCH // 2 * 2 * 32 * 64 * 4)
    replicas = AXIS_TRAFFIC.of(results["replicas"][0][0])
    assert sum(row.payload_bytes for row in replicas if row.kind == "all-reduce") == 4 * 115_008


def test_four_processes_train_products_of_dimensions(tmp_path: Path) -> None:
    """More than the cores of a small machine: for function only."""
    accumulated = {**TEXT, "options": {"gradientAccumulation": 2}}
    recomputed = {**TEXT, "options": {"activationCheckpointing": "full"}}
    results = run(
        tmp_path,
        4,
        {
            "hsdp": ("none", trial(4, "llama_tiny", TEXT, replicate=2, shard=2)),
            "tensor-shard": ("none", trial(4, "llama_tiny", TEXT, tensor=2, shard=2)),
            "tensor-pipeline": ("none", trial(4, "gpt2_tiny", TEXT, tensor=2, pipeline=2)),
            "experts-shard": ("none", trial(4, "mixture_tiny", TEXT, expert=2, shard=2)),
            "experts-pipeline": ("none", trial(4, "mixture_tiny", recomputed, expert=2, pipeline=2)),
            "experts-replicas": ("none", trial(4, "mixture_tiny", accumulated, expert=2, replicate=2)),
            "cnn-replicas": ("none", trial(4, "resnet20", PICTURES, pipeline=2, replicate=2)),
            "cnn-stages": ("none", trial(4, "resnet20", PICTURES, pipeline=4, microBatches=4)),
            "context-shard": ("none", trial(4, "gpt2_tiny", TEXT, context=2, shard="auto", innermost="context")),
        },
    )
    valid(results)
    axes = {row.axis for row in AXIS_TRAFFIC.of(results["hsdp"][0][0])}
    assert axes == {"replicate", "shard"}


def test_faults_of_a_layout_are_wrong_math(two: Results) -> None:
    results = two.of(*WRONG)
    broken = {
        name: {check.name for check in verdict.checks if check.passed is False}
        for name, (_, verdict) in results.items()
    }
    assert all("WrongMath" in names for names in broken.values()), broken


def test_degrees_place_ranks_with_the_innermost_dimension_next_to_each_other() -> None:
    degrees = Degrees(replicate=2, tensor=2, pipeline=2)
    assert [degrees.data_rank(rank) for rank in range(8)] == [0, 0, 1, 1, 0, 0, 1, 1]
