"""Steps recorded on fake tensors, against arithmetic by hand."""

import io
import json
import sys
from typing import Any

import pytest
import torch

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.projection.__main__ import main
from scalecurve_worker.features.projection.step import record_step
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models

GPT2 = {"program": "torch", "model": "gpt2_tiny", "data": {"source": "synthetic", "sequenceLength": 32}}
RESNET = {"program": "torch", "model": "resnet20", "data": {"source": "synthetic", "shape": [3, 16, 16], "classes": 10}}


def trial(workload: dict[str, Any], workers: int = 2, per_node: int | None = None, batch: int = 4) -> TrialSpec:
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "steps"},
        "spec": {
            "scaling": {"modes": ["weak"], "workers": [workers], "batch": {"perWorker": batch}},
            "placement": {"workersPerNode": per_node} if per_node else {},
            "workload": workload,
        },
    }
    return make_plan(ScalingExperiment.model_validate(tree)).trials[0]


def step(workload: dict[str, Any], **arguments: Any) -> StepProgram:
    return record_step(trial(workload, **arguments))


def elements(name: str, **arguments: Any) -> tuple[int, int]:
    """Parameters of all, and of the blocks."""
    with torch.device("meta"):
        model = models.build(name, **arguments)
    blocks = getattr(model, "blocks", ())
    return sum(p.numel() for p in model.parameters()), sum(p.numel() for b in blocks for p in b.parameters())


def test_ddp_all_reduces_every_parameter_once_in_fp32():
    program = step(GPT2)
    parameters, _ = elements("gpt2_tiny", input_shape=[32])
    assert program.parameters == parameters
    assert program.count_exchanged_bytes() == program.count_exchanged_bytes("all-reduce") == 4 * parameters
    assert {(each.ranks, each.nodes) for each in program.exchanges} == {(2, 1)}
    assert len(program.exchanges) == 1  # the first bucket holds 1 MiB, and this model has less
    assert program.memory.parameters == program.memory.gradients == 4 * parameters
    assert program.memory.peak > 3 * 4 * parameters  # buckets too


def test_the_order_ties_both_streams_together():
    program = step({**GPT2, "options": {"bucketCapMb": 0.1}})
    assert len(program.exchanges) > 2
    afters = [each.after for each in program.exchanges]
    assert afters == sorted(afters)
    assert program.work[afters[0]].phase == "backward"
    waited = [index for work in program.work for index in work.waits]
    assert sorted(waited) == list(range(len(program.exchanges)))
    assert min(program.work.index(work) for work in program.work if work.waits) > afters[-1]
    assert [phase for phase in dict.fromkeys(work.phase for work in program.work)] == [
        "forward",
        "backward",
        "optimizer",
    ]


@pytest.mark.parametrize(("hook", "share"), [("fp16", 1 / 2), ("bf16", 1 / 2)])
def test_half_precision_halves_the_bytes(hook: str, share: float):
    program = step({**GPT2, "options": {"commHook": hook}})
    assert program.count_exchanged_bytes("all-reduce") == 4 * program.parameters * share
    assert program.count_exchanged_bytes() == program.count_exchanged_bytes("all-reduce")


def test_one_bit_gathers_a_bit_an_element_and_two_means_a_block():
    program = step({**GPT2, "options": {"commHook": "one-bit"}})
    one = program.exchanges[0]
    assert {each.kind for each in program.exchanges} == {"all-gather"}
    every = program.parameters
    least = 2 * (every / 8 + every / 1024 * 8)  # of both workers; blocks of 1,024 are filled up
    assert least <= program.count_exchanged_bytes() <= least + len(program.exchanges) * 2 * (1024 / 8 + 8)
    assert one.bytes % 2 == 0


def test_batch_norm_broadcasts_its_buffers_unless_they_stay_local():
    with torch.device("meta"):
        buffers = sum(b.nbytes for b in models.build("resnet20", classes=10, input_shape=[3, 16, 16]).buffers())
    assert step(RESNET).count_exchanged_bytes("broadcast") == buffers
    assert step({**RESNET, "options": {"batchNorm": "local"}}).count_exchanged_bytes("broadcast") == 0


def test_fsdp_gathers_blocks_twice_the_root_once_and_scatters_all_once():
    program = step({**GPT2, "strategy": "fsdp"})
    parameters, blocks = elements("gpt2_tiny", input_shape=[32])
    gathered, scattered = program.count_exchanged_bytes("all-gather"), program.count_exchanged_bytes("reduce-scatter")
    assert gathered == pytest.approx(4 * (2 * blocks + (parameters - blocks)), rel=0.01)  # shares are filled up
    assert scattered == pytest.approx(4 * parameters, rel=0.01)
    assert program.memory.parameters == pytest.approx(4 * parameters / 2, rel=0.01)


def test_fsdp_in_bf16_gathers_half_the_bytes():
    program = step({**GPT2, "strategy": "fsdp", "precision": "bf16"})
    full = step({**GPT2, "strategy": "fsdp"})
    assert program.count_exchanged_bytes("all-gather") * 2 == full.count_exchanged_bytes("all-gather")
    assert program.count_exchanged_bytes("reduce-scatter") == full.count_exchanged_bytes("reduce-scatter")


def test_hybrid_sharding_reduces_its_shards_between_copies():
    program = step({**GPT2, "strategy": "fsdp", "options": {"shard": 2}}, workers=8, per_node=2)
    by_axis = {(each.axis, each.ranks, each.nodes): each.kind for each in program.exchanges}
    assert by_axis[("replicate", 4, 4)] == "all-reduce"
    assert {place[1:] for place in by_axis if place[0] == "shard"} == {(2, 1)}
    assert program.count_exchanged_bytes("all-reduce") == pytest.approx(4 * program.parameters / 2, rel=0.01)


@pytest.mark.parametrize(("per_node", "nodes"), [(8, 1), (4, 2), (1, 8)])
def test_placement_says_how_many_nodes_an_exchange_spans(per_node: int, nodes: int):
    program = step(GPT2, workers=8, per_node=per_node)
    assert {(each.ranks, each.nodes) for each in program.exchanges} == {(8, nodes)}


def test_accumulation_computes_every_part_and_sends_once():
    once, twice = step(GPT2), step({**GPT2, "options": {"gradientAccumulation": 2}})
    assert twice.count_exchanged_bytes() == once.count_exchanged_bytes()
    assert twice.flops == pytest.approx(once.flops)


def test_matrix_products_are_counted_as_by_hand():
    """6 FLOPs per weight and token but for embeddings; attention's two products over the full square, each thrice."""
    parameters, blocks = elements("gpt2_tiny", input_shape=[32])
    tokens, width, layers, vocabulary = 4 * 32, 64, 2, models.spec("gpt2_tiny").classes
    weights = layers * 12 * width * width + width * vocabulary
    square = layers * 2 * 2 * 4 * 32 * 32 * width
    assert blocks < parameters
    assert step(GPT2).flops == pytest.approx(6 * weights * tokens + 3.5 * square, rel=0.01)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"strategy": "zero1"}, "strategy"),
        ({"options": {"commHook": "powersgd"}}, "commHook"),
        ({"program": "custom", "command": ["true"]}, "program"),
    ],
)
def test_what_is_not_projected_is_refused_by_its_field(change: dict[str, Any], names: str):
    workload = change if change.get("program") == "custom" else {**GPT2, **change}
    with pytest.raises(WorkloadError, match=names):
        step(workload)


def test_every_line_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    lines = [trial(GPT2), trial({**GPT2, "strategy": "zero1"})]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(each.sent()) + "\n" for each in lines)))
    assert main() == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert StepProgram.model_validate(first["program"]) == step(GPT2)
    assert "zero1" in second["refused"]
