"""Models and data against torch's, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, get_args

import pytest
import torch

from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_worker.torch import models
from scalecurve_worker.torch.flops import count_step_flops
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.torch.transfer import freeze
from tests.worker.features.tensorflow.tensorflow_ranks import MINUTES_S, SCRIPTS, needs_tensorflow

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900), needs_tensorflow]


COUNTED = ("resnet18", "resnet34", "resnet50", "resnet20", "resnet56", "mlp", "alexnet", "inception_v3")
RULES = get_args(Optimizer.model_fields["name"].annotation)


def test_models_and_data_are_those_of_torch() -> None:
    # Counted and stepped here: that loads triton, whose LLVM and TensorFlow's in one process end it.
    flops = {
        name: count_step_flops(models.build(name), torch.empty(1, *models.spec(name).shape)).total for name in COUNTED
    }
    head = models.build("resnet20", classes=4, input_shape=(3, 16, 16))
    freeze(head, {"head.2.weight", "head.2.bias"})
    flops["resnet20 head"] = count_step_flops(head, torch.empty(1, 3, 16, 16)).total
    cases: list[dict[str, Any]] = [{"name": name} for name in RULES]
    cases += [{"name": "sgd", "nesterov": True}, {"name": "rmsprop", "rho": 0.99}]
    steps = [steps_of({**case, "decayNorm": decay_norm}) for case in cases for decay_norm in (True, False)]
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "models_and_data.py")],
        env={**os.environ, "TORCH_FLOPS": json.dumps(flops), "TORCH_STEPS": json.dumps(steps)},
        capture_output=True,
        text=True,
        timeout=MINUTES_S * 2,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def steps_of(changes: dict[str, Any]) -> dict[str, Any]:
    """Five steps of a rule in torch, on a matrix and a vector."""
    rule = Optimizer.model_validate({"learningRate": 0.1, "weightDecay": 0.05, **changes})
    generator = torch.Generator().manual_seed(3)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 4), (4,))]
    before = [parameter.tolist() for parameter in parameters]
    optimizer = make_optimizer(parameters, rule)
    gradients, rates = [], [0.1 / (1 + step) for step in range(5)]
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        gradients.append([parameter.grad.tolist() for parameter in parameters if parameter.grad is not None])
        optimizer.step()
    after = [parameter.tolist() for parameter in parameters]
    return {"rule": rule.wire(), "before": before, "rates": rates, "gradients": gradients, "after": after}
