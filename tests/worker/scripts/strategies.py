"""Trials of the built-in program one after another in one torchrun, right or with a fault; a folder for each.

CASES is a JSON list of [name, fault, trial]. What a fault breaks is put back before the next trial.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.optim import ZeroRedundancyOptimizer

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.extras.compression import hooks
from scalecurve_worker.extras.parameter_server.worker import ParameterServerOptimizer
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch import sharding, strategies, training
from scalecurve_worker.torch.program import run

OUT = Path(os.environ["SCALECURVE_OUT"])


def own_mesh(device: str, shape: tuple[int, ...]) -> DeviceMesh:
    for rank in range(dist.get_world_size()):
        mesh = DeviceMesh(device, [rank]) if rank == dist.get_rank() else None
        if mesh is not None:
            found = mesh
        else:
            dist.new_group([rank])
    return found


def own_gradients(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def without_reduction(self: training.Trainer, batches: Any, communicate: bool = True) -> torch.Tensor:
    return UPDATE(self, batches, communicate=False)


def one_sample_less(self: Bench, samples: int | None = None) -> bool:
    return STEP(self, samples - 1 if samples else samples)


def without_push(self: ParameterServerOptimizer, closure: Any = None) -> None:
    if dist.get_rank() == 1:
        self.pushes += 1
        self.fetch()
    else:
        PUSH(self)


def slow_on_rank_1(self: training.Trainer, batches: Any, communicate: bool = True) -> torch.Tensor:
    if dist.get_rank() == 1:
        time.sleep(0.2)
    return UPDATE(self, batches, communicate)


PUSH = ParameterServerOptimizer.step
UPDATE, STEP = training.Trainer.update, Bench.step


@contextmanager
def broken(fault: str) -> Iterator[None]:
    match fault:
        case "none":
            yield
        case "no-reduction":
            with mock.patch.object(training.Trainer, "update", without_reduction):
                yield
        case "own-shares":
            with mock.patch.object(sharding, "init_device_mesh", own_mesh):
                yield
        case "own-gradients":
            with mock.patch.object(hooks.ErrorFeedback, "mean", own_gradients):
                yield
        case "no-broadcast":
            with mock.patch.object(ZeroRedundancyOptimizer, "_sync_params", return_value=None):
                yield
        case "no-wrapper":
            with mock.patch.dict(strategies.STRATEGIES, dict.fromkeys(strategies.STRATEGIES, strategies.single)):
                yield
        case "samples":
            with mock.patch.object(Bench, "step", one_sample_less):
                yield
        case "lost-push":
            with mock.patch.object(ParameterServerOptimizer, "step", without_push):
                yield
        case "slow-rank-1":
            with mock.patch.object(training.Trainer, "update", slow_on_rank_1):
                yield
        case _:
            raise ValueError(fault)


# torchrun's store keeps the addresses of a group that has ended, and the next one would call them. Without its address
# the ranks of each trial meet in that trial's folder.
del os.environ["MASTER_ADDR"]
for name, fault, wire in json.loads(os.environ["CASES"]):
    os.environ["SCALECURVE_OUT"] = str(OUT / name)
    os.environ["SCALECURVE_TRIAL"] = json.dumps(wire)
    (OUT / name).mkdir(exist_ok=True)
    with broken(fault):
        run(TrialSpec.model_validate(wire))
