"""What is done with a model once its training to accuracy has ended: on rank 0, with the others waiting."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from torch import nn

from scalecurve_api.spec.measure import Accuracy
from scalecurve_worker.extras.quantization import quantize
from scalecurve_worker.record.session import Facts
from scalecurve_worker.torch.checkpoints import open_folder, write_checkpoint
from scalecurve_worker.torch.data import Loader

if TYPE_CHECKING:
    from scalecurve_worker.torch.program import Job


@dataclass(frozen=True)
class Trained:
    """A trained model on rank 0.

    ``module`` is the bare model on its device, in eval mode; it may be copied and must not be changed. ``training``
    gives rank 0's training batches (``set_epoch`` chooses which), ``validation`` the whole validation set.
    """

    job: Job
    facts: Facts
    module: nn.Module
    training: Loader
    validation: Loader


def look_at(trained: Trained, goal: Accuracy) -> None:
    """Do what ``measure.accuracy`` asks for beside the evaluations, and write it into ``trained.facts``."""
    if goal.checkpoints is not None:
        path = write_checkpoint(trained.module, open_folder(goal.checkpoints), trained.job.trial.name)
        trained.facts.options["trainedParameters"] = str(path)
    finite = all(parameter.isfinite().all() for parameter in trained.module.parameters())
    if goal.quantization is not None and finite:
        trained.training.set_epoch(0)
        inputs = [batch for batch, _ in islice(trained.training, goal.quantization.calibration_batches)]
        trained.facts.quantization = quantize(trained.module, inputs, trained.validation, goal.quantization)
