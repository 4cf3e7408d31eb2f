"""The memory estimate against arithmetic by hand, and against what was measured on an H200."""

from typing import Any

import pytest

from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.programs.memory import Memory, memory_of
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.validation.rules import check
from tests.api.example_experiments import experiment

LLAMA = 8_030_261_248
GIB = 2**30
LAYER = 4 * (2 * 4096 + 3 * 4096 + 4096 + 2 * 1024 + 4 * 14_336)
"""Bytes of a token in fp32: 2 inputs and 2 outputs of norms, queries, attention and 2 x 2 grouped keys and values, 4 of
the feed-forward layer."""
BY_HAND = 2048 * (32 * LAYER + 12 * 128_256)
"""Of 2,048 tokens in 32 layers; at the end 3 fp32 numbers for each logit."""


def memory(degrees: Degrees | None = None, workers: int = 1, batch: int = 1, **workload: Any) -> Memory:
    fields = {"program": "torch", "model": "llama_8b", "optimizer": {"name": "adamw"}, **workload}
    known = memory_of(TorchWorkload.model_validate(fields), degrees, workers, batch)
    assert known is not None
    return known


def test_state_is_divided_as_the_strategy_divides_it() -> None:
    ddp = memory(strategy="ddp", workers=8)
    assert (ddp.parameters, ddp.gradients, ddp.optimizer) == (4 * LLAMA, 4 * LLAMA, 8 * LLAMA)
    assert ddp.buffers == 4 * LLAMA
    fsdp = memory(strategy="fsdp", workers=8)
    assert (fsdp.parameters, fsdp.gradients, fsdp.optimizer) == (LLAMA / 2, LLAMA / 2, LLAMA)
    zero1 = memory(strategy="zero1", workers=8)
    assert (zero1.parameters, zero1.optimizer) == (4 * LLAMA, LLAMA)
    assert memory(strategy="ddp", optimizer={"momentum": 0.0}).optimizer == 0


def test_activations_by_hand() -> None:
    assert memory(strategy="ddp").activations == BY_HAND
    assert memory(strategy="ddp", batch=3).activations == 3 * BY_HAND
    recomputed = memory(strategy="ddp", options={"activationCheckpointing": "full"}).activations
    assert recomputed == 2048 * (31 * 4 * 4096 + LAYER + 12 * 128_256)


@pytest.mark.parametrize(("strategy", "workers", "measured_gib"), [("ddp", 4, 33.4), ("fsdp", 4, 19.7)])
def test_an_h200_needed_about_as_much(strategy: str, workers: int, measured_gib: float) -> None:
    """GPT-2 large, bf16, 8 x 1,024 tokens on each GPU: docs/evidence/h200."""
    data = {"classes": 50_304, "sequenceLength": 1024}
    known = memory(None, workers, 8, model="gpt2_large", strategy=strategy, precision="bf16", data=data)
    assert known.total / GIB == pytest.approx(measured_gib, rel=0.10)


def test_what_cannot_fit_is_refused_with_the_arithmetic() -> None:
    changes: dict[str, Any] = {
        "workload": {"model": "llama_8b", "strategy": "ddp", "precision": "bf16", "optimizer": {"name": "adamw"}},
        "scaling/batch": {"perWorker": 1},
        "scaling/workers": [1],
    }
    assert not check(experiment(changes))
    (problem,) = check(experiment({**changes, "resources/deviceMemoryGb": 141}))
    assert problem.field == "spec.resources.deviceMemoryGb"
    assert "32.1 parameters + 64.2 optimizer" in problem.message
    assert "= 176.7 GB" in problem.message
    sharded = {**changes, "scaling/workers": [8], "resources/deviceMemoryGb": 141}
    sharded["workload"] = {**changes["workload"], "strategy": "fsdp"}
    assert not check(experiment(sharded))


def test_state_alone_is_a_lower_bound_for_other_models() -> None:
    known = memory(model="resnet50", strategy="ddp")
    assert known.activations is None
    assert known.total == 4 * 25_557_032 * (1 + 2 + 1 + 1)
    assert "not known" in known.arithmetic
