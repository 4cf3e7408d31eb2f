"""Activation checkpointing: the same gradients, more FLOPs, and which of them count for what."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models
from scalecurve_worker.torch.flops import count_step_flops
from scalecurve_worker.torch.recomputation import recomputed

LENGTH, BATCH = 16, 2
MODES = (Recomputation.none, Recomputation.selective, Recomputation.full)


def model(name: str = "gpt2_tiny") -> nn.Module:
    torch.manual_seed(3)
    return models.build(name, classes=50, input_shape=(LENGTH,))


def tokens() -> torch.Tensor:
    return torch.randint(50, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["gpt2_tiny", "llama_tiny"])
def test_gradients_are_those_of_the_plain_model(name: str) -> None:
    gradients = []
    for mode in MODES:
        wrapped = recomputed(model(name), mode)
        models.training_loss(wrapped(tokens()), tokens()).backward()
        gradients.append([parameter.grad for parameter in wrapped.parameters()])
    for other in gradients[1:]:
        assert all(torch.equal(a, b) for a, b in zip(gradients[0], other, strict=True) if a is not None)
    assert all(gradient is not None for gradient in gradients[0])


@pytest.mark.parametrize("name", ["gpt2_tiny", "llama_tiny"])
def test_the_models_flops_stay_and_the_hardwares_grow(name: str) -> None:
    plain, blocks = model(name), model(name).get_submodule("blocks")
    own = count_step_flops(plain, tokens())
    assert count_step_flops(plain, tokens(), recomputed=True) == own
    without = copy.deepcopy(plain)
    without.blocks = nn.ModuleList() if isinstance(blocks, nn.ModuleList) else nn.Sequential()
    of_blocks = own.forward - count_step_flops(without, tokens()).forward
    counts = {mode: count_step_flops(recomputed(model(name), mode), tokens(), recomputed=True) for mode in MODES}
    # Recomputing ends with the last output that the backward pass needs: that of a block's last product is not one.
    last = sum(2 * BATCH * LENGTH * layer.weight.numel() for key, layer in named_linears(plain) if key.endswith("down"))
    assert counts[Recomputation.full].total == own.total + of_blocks - last
    assert own.total < counts[Recomputation.selective].total < counts[Recomputation.full].total
    for mode in MODES:
        assert count_step_flops(recomputed(model(name), mode), tokens()) == own


def named_linears(plain: nn.Module) -> list[tuple[str, nn.Linear]]:
    return [(name, layer) for name, layer in plain.named_modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize(("mode", "calls"), list(zip(MODES, (1, 2, 2), strict=True)))
def test_what_is_not_kept_is_run_again(mode: Recomputation, calls: int) -> None:
    wrapped, seen = recomputed(model(), mode), []
    first = next(layer for layer in wrapped.modules() if isinstance(layer, nn.LayerNorm))
    first.register_forward_hook(lambda *_: seen.append(1))
    wrapped(tokens()).sum().backward()
    assert len(seen) == calls


def test_a_model_without_blocks_is_refused() -> None:
    mlp = models.build("mlp", classes=3, input_shape=(8,))
    assert recomputed(mlp, Recomputation.none) is mlp
    with pytest.raises(WorkloadError, match=r"activationCheckpointing: full: \w+ is not made of blocks; use none"):
        recomputed(mlp, Recomputation.full)
