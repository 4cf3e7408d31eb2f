"""Trials of the built-in program one after another in the same ranks, right or with a fault.

What a fault breaks is put back before the next trial.
"""

import copy
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from parameter_servers import fork_servers
from series import run_series, trials
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.optim import ZeroRedundancyOptimizer

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.compression import hooks
from scalecurve_worker.features.parameter_servers.worker import ParameterServerOptimizer
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.torch import sharding, strategies, training
from scalecurve_worker.torch.program import run


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


def late_push_of_rank_1(self: ParameterServerOptimizer, closure: Any = None) -> None:
    """Push only when the servers have gone on without this worker, however slow rank 0 is."""
    while dist.get_rank() == 1 and self.counts()[0].updates == self._versions[0]:
        time.sleep(0.001)
    PUSH(self)


def without_all_reduce(model: torch.nn.Module, *arguments: Any) -> sharding.Sharded:
    made = SHARD(model, *arguments)
    model.set_requires_all_reduce(False)
    return made


SHARD, MESH_OF = sharding.shard, sharding.mesh_of
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
        case "one-dimension":
            with mock.patch.object(strategies, "mesh_of", lambda device, workers, shard: MESH_OF(device, workers, 0)):
                yield
        case "no-replicas":
            with mock.patch.object(strategies, "shard", without_all_reduce):
                yield
        case "own-gradients":
            with mock.patch.object(hooks.ErrorFeedback, "mean", own_gradients):
                yield
        case "no-broadcast":
            with mock.patch.object(ZeroRedundancyOptimizer, "_sync_params", return_value=None):
                yield
        case "no-wrapper":
            unwrapped = strategies.RankStrategy(strategies.single)
            with mock.patch.object(strategies.STRATEGIES, "get", return_value=unwrapped):
                yield
        case "samples":
            with mock.patch.object(Bench, "step", one_sample_less):
                yield
        case "lost-push":
            with mock.patch.object(ParameterServerOptimizer, "step", without_push):
                yield
        case "slow-rank-1":
            with mock.patch.object(ParameterServerOptimizer, "step", late_push_of_rank_1):
                yield
        case _:
            raise ValueError(fault)


def groups_of_deepspeed() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Modules of DeepSpeed that keep a process group for as long as the process lives, with what they begin with."""
    if importlib.util.find_spec("deepspeed") is None or "deepspeed-zero" not in os.environ["CASES"]:
        return []
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    groups, comm = (vars(importlib.import_module(f"deepspeed.{name}")) for name in ("utils.groups", "comm.comm"))
    # An extension for inference on CPUs, which takes minutes to compile.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]
    kept = {name: value for name, value in groups.items() if name.startswith("_") and name.isupper()}
    return [(groups, kept), (comm, {"cdb": comm["cdb"]})]


fork_servers(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), trials())
fresh = copy.deepcopy([kept for _, kept in groups_of_deepspeed()])


def run_case(fault: str, trial: TrialSpec) -> None:
    for (module, _), kept in zip(groups_of_deepspeed(), fresh, strict=True):
        module.update(copy.deepcopy(kept))
    with broken(fault):
        run(trial)


run_series(run_case)
