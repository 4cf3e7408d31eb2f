"""Trials of program horovod one after another in one mpirun, right or with a fault; a folder for each.

CASES is a JSON list of [name, fault, trial]. What a fault breaks is put back before the next trial.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import horovod.torch as hvd
import mpi4py.MPI  # noqa: F401  (before Horovod, which looks for its library elsewhere)
from horovod.torch.optimizer import _DistributedOptimizer as Distributed

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.horovod.torch_program import run

OUT = Path(os.environ["SCALECURVE_OUT"])
SYNCHRONIZE = Distributed.synchronize


def adds_up_nothing(self: Any) -> None:
    """What Keras 3 makes of Horovod's optimizer: its name is there, and gradients never meet."""
    self._synchronized = True


def other_sum_on_rank_1(self: Any) -> None:
    SYNCHRONIZE(self)
    if hvd.rank() == 1:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(1.5)


def bare(optimizer: Any, **options: Any) -> Any:
    return optimizer


@contextmanager
def broken(fault: str) -> Iterator[None]:
    match fault:
        case "none":
            yield
        case "adds-up-nothing":
            with (
                mock.patch.object(Distributed, "_register_hooks", return_value=None),
                mock.patch.object(Distributed, "synchronize", adds_up_nothing),
            ):
                yield
        case "another-sum-on-one-rank":
            with mock.patch.object(Distributed, "synchronize", other_sum_on_rank_1):
                yield
        case "bare":
            with mock.patch.object(hvd, "DistributedOptimizer", bare):
                yield
        case _:
            raise ValueError(fault)


for name, fault, wire in json.loads(os.environ["CASES"]):
    os.environ["SCALECURVE_OUT"] = str(OUT / name)
    os.environ["SCALECURVE_TRIAL"] = json.dumps(wire)
    (OUT / name).mkdir(exist_ok=True)
    with broken(fault):
        run(TrialSpec.model_validate(wire))
