"""Trials of strategy mesh one after another in the same ranks, right or with a fault."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from series import run_series
from torch.distributed.fsdp import FSDPModule

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.layouts import experts, program, tensor, updates
from scalecurve_worker.features.layouts.layout import LaidOut
from scalecurve_worker.torch.program import run

ACCUMULATE, PIPELINE = updates.LayoutTrainer._accumulate, updates.LayoutTrainer._pipeline
SYNC = FSDPModule.set_requires_gradient_sync


def sync_without_all_reduce(stage: FSDPModule, reduced: bool) -> None:
    SYNC(stage, reduced)
    stage.set_requires_all_reduce(False)


def all_but_one(of: Callable[[Any, Any], Any]) -> Callable[[Any, Sequence[Any]], Any]:
    return lambda trainer, batches: of(trainer, batches[:-1])


@contextmanager
def broken(fault: str) -> Iterator[None]:
    patches = {
        "none": [],
        # Rows of one matrix for queries, keys and values, cut where the heads are not.
        "wrong sharding": [
            mock.patch.object(program, "separate", return_value=None),
            mock.patch.object(tensor, "_FIRST", ("qkv", "up")),
        ],
        "missing all-reduce": [mock.patch.object(FSDPModule, "set_requires_gradient_sync", sync_without_all_reduce)],
        "missing tied sum": [mock.patch.object(updates, "_ends_of_pipeline", return_value=None)],
        "experts not exchanged": [mock.patch.object(experts, "_exchange", lambda slots, mesh: slots)],
        "sums of experts": [mock.patch.object(LaidOut, "experts", return_value=())],
        "dropped micro-batch": [
            mock.patch.object(updates.LayoutTrainer, "_accumulate", all_but_one(ACCUMULATE)),
            mock.patch.object(updates.LayoutTrainer, "_pipeline", all_but_one(PIPELINE)),
        ],
    }[fault]
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def run_case(fault: str, trial: TrialSpec) -> None:
    with broken(fault):
        run(trial)


run_series(run_case)
