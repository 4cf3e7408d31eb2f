from __future__ import annotations

import copy
from pathlib import Path
from typing import get_args

import pytest
import torch
import torch.distributed as dist

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.workload import Workload
from scalecurve_worker.torch.optimizers import groups_of, make_optimizer, rule_of
from scalecurve_worker.torch.strategies import zero1


def updated(weight: torch.Tensor, gradient: torch.Tensor, steps: int, **asked: object) -> torch.Tensor:
    parameter = torch.nn.Parameter(weight.clone())
    optimizer = make_optimizer([parameter], Optimizer.model_validate(asked))
    for _ in range(steps):
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def test_lars_scales_a_layer_by_its_trust() -> None:
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.6, 0.8]])
    # |w| = 5, |g| = 1, decay 0.1: ratio 0.01 x 5 / (1 + 0.5); direction g + 0.1 w.
    ratio = 0.01 * 5 / 1.5
    expected = weight - 2.0 * ratio * (gradient + 0.1 * weight)
    asked = {"name": "lars", "learningRate": 2.0, "momentum": 0.0, "weightDecay": 0.1, "trust": 0.01}
    assert torch.allclose(updated(weight, gradient, 1, **asked), expected)
    # Whatever the gradient's size, without decay.
    light = {**asked, "weightDecay": 0.0}
    assert torch.allclose(updated(weight, gradient, 1, **light), updated(weight, 1000 * gradient, 1, **light))


def test_lamb_moves_a_layer_by_a_share_of_its_length() -> None:
    weight, gradient = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.5, -0.25]])
    # Adam's first step is the sign; its length is sqrt 2.
    expected = weight - 0.1 * 5 / 2**0.5 * gradient.sign()
    assert torch.allclose(updated(weight, gradient, 1, name="lamb", learningRate=0.1), expected, atol=1e-4)


def test_a_first_step_of_each_rule_by_hand() -> None:
    """Gradient 0.5 plus a weight decay of 0.1 on a weight of 2: 0.7; adamw decays the weight itself."""
    weight, gradient = torch.tensor([2.0]), torch.tensor([0.5])
    asked = {"learningRate": 0.1, "weightDecay": 0.1, "rho": 0.75}
    # Adadelta's first step is sqrt(eps / (0.25 g² + eps)) of the gradient.
    expected = {
        "sgd": 2 - 0.1 * 0.7,
        "adam": 2 - 0.1,
        "adamw": 2 - 0.1 * 0.1 * 2 - 0.1,
        "adadelta": 2 - 0.1 * (1e-6 / (0.25 * 0.49 + 1e-6)) ** 0.5 * 0.7,
        "adagrad": 2 - 0.1,
        "rmsprop": 2 - 0.1 / 0.25**0.5,
    }
    for name, after in expected.items():
        assert updated(weight, gradient, 1, name=name, **asked).item() == pytest.approx(after, abs=1e-6), name
    # Nesterov's first step is ahead by the momentum: g + 0.9 g.
    nesterov = {"name": "sgd", "nesterov": True, "learningRate": 0.1}
    assert updated(weight, gradient, 1, **nesterov).item() == pytest.approx(2 - 0.1 * 1.9 * 0.5)


@pytest.mark.parametrize("name", ["lars", "lamb"])
def test_vectors_and_layers_of_zeros_still_move(name: str) -> None:
    asked = {"name": name, "learningRate": 0.1, "momentum": 0.0}
    bias = updated(torch.zeros(2), torch.tensor([1.0, -1.0]), 2, **asked)
    assert torch.allclose(bias, torch.tensor([-0.2, 0.2]), atol=1e-4)
    assert updated(torch.zeros(1, 2), torch.ones(1, 2), 1, **asked).abs().min() > 0


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_is_fused_on_gpus_alone_unless_the_option_says_otherwise(name: str) -> None:
    asked = Optimizer.model_validate({"name": name})
    assert rule_of(asked, device="cuda")[1]["fused"] is True
    assert not make_optimizer([torch.nn.Parameter(torch.zeros(1))], asked).defaults["fused"]
    assert "fused" not in rule_of(asked.model_copy(update={"fused": False}), device="cuda")[1]
    assert rule_of(Optimizer(name="sgd", fused=True))[1]["fused"] is True
    assert "fused" not in rule_of(Optimizer(name="sgd"), device="cuda")[1]


NORMED = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 3)
)


RULES = get_args(Optimizer.model_fields["name"].annotation)
BY_LAYER = ("lars", "lamb")


@pytest.mark.parametrize("name", RULES)
def test_without_decay_of_norms_vectors_stay_where_no_gradient_moves_them(name: str) -> None:
    asked = {"name": name, "learningRate": 0.1, "weightDecay": 0.5, "momentum": 0.0, "trust": 1.0}
    for decay_norm in (True, False):
        model = copy.deepcopy(NORMED)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        optimizer = make_optimizer(model.parameters(), Optimizer.model_validate({**asked, "decayNorm": decay_norm}))
        for group in optimizer.param_groups:
            group["lr"] = 0.2  # as the rules over epochs do
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        moved = [not torch.equal(now, was) for now, was in zip(model.parameters(), before, strict=True)]
        # Convolution, its bias, norm's weight and bias (which is zero), linear and its bias.
        everything = decay_norm and name not in BY_LAYER
        assert moved == [True, everything, everything, False, True, everything], (name, decay_norm)


def test_all_parameters_are_one_group_unless_some_do_not_decay() -> None:
    parameters = list(NORMED.parameters())
    assert groups_of(parameters, Optimizer(weight_decay=0.1)) == parameters
    assert groups_of(parameters, Optimizer(decay_norm=False)) == parameters
    decayed, others = groups_of(parameters, Optimizer(weight_decay=0.1, decay_norm=False))
    assert [each.dim() for each in decayed["params"]] == [4, 2]
    assert ([each.dim() for each in others["params"]], others["weight_decay"]) == ([1, 1, 1, 1], 0.0)
    assert len(groups_of(parameters[1:2], Optimizer(weight_decay=0.1, decay_norm=False))) == 1


def test_zero_keeps_the_groups_and_follows_their_rates(tmp_path: Path) -> None:
    asked = {"strategy": "zero1", "optimizer": {"weightDecay": 0.5, "momentum": 0.0, "decayNorm": False}}
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        model = copy.deepcopy(NORMED)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        spread = zero1(model, torch.device("cpu"), Workload.model_validate(asked))
        for group in spread.optimizer.param_groups:
            group["lr"] = 0.2
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        spread.optimizer.step()
    finally:
        dist.destroy_process_group()
    for now, was in zip(model.parameters(), before, strict=True):
        assert torch.allclose(now, was * (1 - 0.2 * 0.5) if was.dim() > 1 else was)
