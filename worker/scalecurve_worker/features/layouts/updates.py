"""One update of a model that is laid out: with or without a pipeline."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import loss_parallel

from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.parallelism import PipelineSchedule
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.features.layouts.context import own_part
from scalecurve_worker.features.layouts.layout import LaidOut
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.device import autocast

Loss = Callable[[Any, Tensor], Tensor]
_PASSES = ("forward_one_chunk", "backward_one_chunk")


class LayoutTrainer:
    """Trains what a layout has made of a model; every rank of a data-parallel group gets the group's batch."""

    def __init__(
        self, laid: LaidOut, precision: Precision, device: torch.device, loss: Loss, schedule: PipelineSchedule
    ) -> None:
        self.laid = laid
        self._precision = precision if laid.autocast else Precision.fp32
        self._device = device
        self._loss = loss
        self._kind = schedule
        self._ends = _ends_of_pipeline(laid)
        self._schedules: dict[tuple[int, torch.Size], Any] = {}
        self._stages: dict[tuple[int, torch.Size], list[PipelineStage]] = {}

    def update(self, optimizer: torch.optim.Optimizer | None, batches: Sequence[Batch]) -> Tensor | None:
        """Run one step over equal parts of the group's batch; return their mean loss, on the workers that have it."""
        loss = self.passes(batches)
        self._finish_gradients()
        if optimizer is not None:
            optimizer.step()
        return loss

    def passes(self, batches: Sequence[Batch]) -> Tensor | None:
        """Run the forward and backward passes of a step; sums over the ends of a pipeline are still missing."""
        for parameter in self.laid.module.parameters():
            parameter.grad = None
        own = [self._own(batch) for batch in batches]
        return self._accumulate(own) if self.laid.meshes.degrees.pipeline == 1 else self._pipeline(own)

    @contextmanager
    def wrap_passes(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
        """Call every pass of this rank's stages through ``wrap``, the loss as well; of schedules that have run."""
        loss, self._loss = self._loss, wrap(self._loss)
        stages = [stage for stages in self._stages.values() for stage in stages]
        for stage in stages:
            for name in _PASSES:
                setattr(stage, name, wrap(getattr(stage, name)))
        try:
            yield
        finally:
            self._loss = loss
            for stage in stages:
                for name in _PASSES:
                    delattr(stage, name)

    def _own(self, batch: Batch) -> Batch:
        meshes = self.laid.meshes
        return own_part(batch, meshes.place[Dimension.context], meshes.degrees.context)

    def _accumulate(self, batches: Sequence[Batch]) -> Tensor:
        stage, losses = self.laid.stages[0], []
        for index, (inputs, targets) in enumerate(batches):
            if isinstance(stage, FSDPModule):
                stage.set_requires_gradient_sync(index == len(batches) - 1)
            with self._contexts():
                with autocast(self._precision, self._device):
                    loss = self._loss(stage(inputs), targets)
                torch.autograd.backward(loss / len(batches))
            losses.append(_plain(loss.detach()))
        return torch.stack(losses).mean()

    def _pipeline(self, batches: Sequence[Batch]) -> Tensor | None:
        inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
        schedule = self._schedule(len(batches), inputs.shape)
        losses: list[Tensor] = []
        further = {"target": targets, "losses": losses} if self.laid.last else {}
        with self._contexts(), autocast(self._precision, self._device):
            schedule.step(*([inputs] if self.laid.first else []), **further)
        return torch.stack([_plain(loss.detach()) for loss in losses]).mean() if losses else None

    def _schedule(self, parts: int, shape: torch.Size) -> Any:
        """The schedule for inputs of this shape: its stages learn from their first micro-batch what they exchange."""
        key = parts, shape
        if key not in self._schedules:
            laid = self.laid
            group = laid.meshes.group(Dimension.pipeline)
            stages = self._stages[key] = [
                PipelineStage(stage, index, laid.stage_count, self._device, group=group)
                for stage, index in zip(laid.stages, laid.indices, strict=True)
            ]
            match self._kind:
                case PipelineSchedule.gpipe:
                    made: Any = ScheduleGPipe(stages[0], parts, loss_fn=self._loss_of)
                case PipelineSchedule.one_f_one_b:
                    made = Schedule1F1B(stages[0], parts, loss_fn=self._loss_of)
                case PipelineSchedule.interleaved:
                    made = ScheduleInterleaved1F1B(list(stages), parts, loss_fn=self._loss_of)
            self._schedules[key] = made
        return self._schedules[key]

    def _loss_of(self, outputs: Any, targets: Tensor) -> Tensor:
        return self._loss(outputs, targets)

    def _contexts(self) -> AbstractContextManager[Any]:
        return loss_parallel() if self.laid.split_loss else nullcontext()

    def _finish_gradients(self) -> None:
        """What no hook does: sums of split norms and an embedding at both ends of the pipeline; means of experts."""
        for parameter in self.laid.module.parameters():
            grad = parameter.grad
            if isinstance(parameter, DTensor) and isinstance(grad, DTensor) and grad.placements != parameter.placements:
                parameter.grad = grad.redistribute(placements=parameter.placements)
        for parameter in self.laid.experts():
            # Their experts have had the tokens of all these workers, whose losses are means over their own.
            if parameter.grad is not None:
                parameter.grad /= self.laid.meshes.degrees.expert
        embedding = self.laid.embedding() if self._ends is not None else None
        if embedding is not None and embedding.grad is not None:
            grad = embedding.grad
            dist.all_reduce(grad.to_local() if isinstance(grad, DTensor) else grad, group=self._ends)


def _ends_of_pipeline(laid: LaidOut) -> dist.ProcessGroup | None:
    """The group of the two workers that hold a tied embedding; None elsewhere. Collective over all ranks."""
    if not laid.has_tied_ends:
        return None
    own = None
    for column in laid.meshes.dense.mesh.flatten(1).T.tolist():
        ends = [column[0], column[-1]]
        group = dist.new_group(ends)
        if isinstance(group, dist.ProcessGroup):
            own = group
    return own


def _plain(loss: Tensor) -> Tensor:
    if isinstance(loss, DTensor):
        return loss.redistribute(placements=[Replicate()] * loss.device_mesh.ndim).to_local()
    return loss


def group_parameters(module: nn.Module) -> list[list[nn.Parameter]]:
    """Group a module's parameters by mesh: an optimizer updates a group in one call."""
    groups: dict[object, list[nn.Parameter]] = {}
    for parameter in dict.fromkeys(module.parameters()):
        mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
        groups.setdefault(mesh, []).append(parameter)
    return list(groups.values())
