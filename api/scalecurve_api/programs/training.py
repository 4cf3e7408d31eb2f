"""What a training to a target can be asked for: augmentation, pretrained parameters, what is measured beside it."""

from __future__ import annotations

from collections.abc import Iterator

from scalecurve_api.programs.data import Augmentation, DataSource
from scalecurve_api.programs.options import CommHook
from scalecurve_api.programs.workload import Program, Strategy, Trained, Workload
from scalecurve_api.spec.measure import Measure

Broken = tuple[str, object, str]

_WHOLE = (Strategy.single, Strategy.ddp, Strategy.dp, Strategy.zero1)
"""Strategies whose every process holds all parameters."""


def illegal_training(workload: Workload, strategy: Strategy | None) -> Iterator[Broken]:
    """Yield ``(field, given, what is allowed)`` for each option that goes with another program, source or strategy."""
    data, transfer = workload.data, workload.transfer
    if workload.program is not Program.torch:
        for field, given, default in (
            ("data.augmentation", data.augmentation.value, Augmentation.auto.value),
            ("data.cutout", data.cutout, 0),
            ("data.instances", data.instances, 1),
            ("data.validation", data.validation, None),
            ("transfer.checkpoint", transfer.checkpoint, None),
            ("transfer.train", transfer.train.value, Trained.all.value),
            ("optimizer.decayNorm", workload.optimizer.decay_norm, True),
        ):
            if given != default:
                yield f"workload.{field}", given, "goes with program torch only"
        return
    if data.validation is not None and data.source is not DataSource.image_folder:
        yield "workload.data.validation", data.validation, "goes with source image-folder; other sets have a split"
    if data.shape is not None and data.cutout > max(data.shape[-2:]):
        yield "workload.data.cutout", data.cutout, f"at most the side of an image, {max(data.shape[-2:])}"
    if strategy is Strategy.parameter_server and not workload.optimizer.decay_norm:
        yield "workload.optimizer.decayNorm", False, "true; a server holds its parameters as one vector"
    if transfer.train is Trained.scratch:
        return
    if (transfer.checkpoint is not None or transfer.train is not Trained.all) and strategy not in _WHOLE:
        field = "checkpoint" if transfer.checkpoint is not None else "train"
        given = transfer.checkpoint or transfer.train.value
        yield f"workload.transfer.{field}", given, f"strategy {', '.join(_WHOLE)}; it is {strategy}"


def illegal_beside(measure: Measure, workload: Workload, strategy: Strategy | None, workers: int) -> Iterator[Broken]:
    """Yield the same for what ``measure.accuracy`` asks for beside the evaluations."""
    accuracy = measure.accuracy
    if accuracy is None:
        return
    where = "measure.accuracy"
    for name, given in (
        ("checkpoints", accuracy.checkpoints),
        ("quantization", accuracy.quantization and accuracy.quantization.wire()),
        ("noiseScale", accuracy.noise_scale or None),
    ):
        if given is None:
            continue
        if workload.program is not Program.torch:
            yield f"{where}.{name}", given, "goes with program torch only"
        elif strategy not in _WHOLE:
            yield f"{where}.{name}", given, f"strategy {', '.join(_WHOLE)}; it is {strategy}"
    if accuracy.noise_scale and workload.program is Program.torch:
        yield from _noise_scale(workload, strategy, workers)


def _noise_scale(workload: Workload, strategy: Strategy | None, workers: int) -> Iterator[Broken]:
    where, options = "measure.accuracy.noiseScale", workload.options
    if strategy not in (Strategy.ddp, Strategy.single):
        yield where, True, f"strategy ddp or single; it is {strategy}"
    elif options.comm_hook is not CommHook.none:
        yield where, True, f"commHook none: DDP takes one hook, and {options.comm_hook} has its place"
    elif workers == 1 and options.gradient_accumulation == 1:
        least = "workload.options.gradientAccumulation of 2 or more where a point has 1 worker"
        yield where, True, f"{least}: one gradient a step has no other to be held against"
