"""Models and data against torch's, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from scalecurve_worker.torch import models
from scalecurve_worker.torch.flops import count_step_flops
from tests.worker.tensorflow.tensorflow_ranks import MINUTES_S, SCRIPTS, needs_tensorflow

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900), needs_tensorflow]


COUNTED = ("resnet18", "resnet34", "resnet50", "resnet20", "resnet56", "mlp", "alexnet")


def test_models_and_data_are_those_of_torch() -> None:
    # Counted here: what counts for torch loads triton, whose LLVM and TensorFlow's in one process end it.
    flops = {
        name: count_step_flops(models.build(name), torch.empty(1, *models.spec(name).shape)).total for name in COUNTED
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "models_and_data.py")],
        env={**os.environ, "TORCH_FLOPS": json.dumps(flops)},
        capture_output=True,
        text=True,
        timeout=MINUTES_S * 2,
    )
    assert done.returncode == 0, done.stdout + done.stderr
