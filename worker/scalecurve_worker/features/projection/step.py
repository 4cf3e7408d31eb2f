"""One training step of a trial on fake tensors: no device, no other ranks, no memory, no arithmetic."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode
from scalecurve_api.programs.training import Transfer
from scalecurve_api.programs.workload import Precision
from scalecurve_api.record.step_program import StepMemory, StepProgram
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.projection.recorder import Allocation, StepRecorder
from scalecurve_worker.features.projection.replicas import FakeReplicas
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.job import TorchJob, split_batch
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.torch.recomputation import recomputed
from scalecurve_worker.torch.sharding import computes_in_bf16, mesh_of, shard, unreduced
from scalecurve_worker.torch.strategies import RankStrategy, WrappedModel, count_elements, single
from scalecurve_worker.torch.transfer import train_mode

_CPU = torch.device("cpu")
_PROJECTED = ("single", "ddp", "fsdp")
# Types of the same size that fake CPU tensors take: what is recorded is bytes and order.
_RECORDED_AS = {Precision.tf32: Precision.fp32, Precision.fp16: Precision.bf16}


def record_step(trial: TrialSpec) -> StepProgram:
    """Record the second step of a trial on rank 0: the first makes the optimizer's state and arranges DDP's buckets.

    Raises:
        WorkloadError: what the trial runs cannot be recorded.
    """
    workload = _recordable(trial)
    job = TorchJob(trial, workload, _CPU, RankStrategy(single))
    dist.init_process_group("fake", rank=0, world_size=trial.point.workers, store=FakeStore())
    try:
        model, shape, classes = _build_model(job, workload)
        mesh = _mesh(workload, trial.point.workers)
        with FakeTensorMode():
            return _record(job, workload, model, _batch(job, shape, classes), mesh)
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    finally:
        dist.destroy_process_group()


def _recordable(trial: TrialSpec) -> TorchWorkload:
    """The workload as it is recorded."""
    if trial.workload.program != "torch":
        raise WorkloadError(f"workload.program: a projection needs torch; it is {trial.workload.program}")
    workload = trial.workload_as(TorchWorkload)
    strategy = workload.resolved_strategy
    if strategy.name not in _PROJECTED:
        raise WorkloadError(f"workload.strategy: {strategy} is not projected; expected {', '.join(_PROJECTED)}")
    if workload.batch_norm is BatchNormMode.synchronized:
        raise WorkloadError("workload.options.batchNorm: synchronized is not projected; use broadcast or local")
    if workload.transfer != Transfer():
        raise WorkloadError("workload.transfer: is not projected; remove it")
    data = workload.data
    if data.source is not DataSource.synthetic and not (data.shape or data.sequence_length):
        raise WorkloadError(f"workload.data.shape: is required to project a step over {data.source}")
    precision = _RECORDED_AS.get(workload.precision, workload.precision)
    options = workload.options.model_copy(update={"compile": False})
    return workload.model_copy(update={"precision": precision, "options": options})


def _wrap_model(model: nn.Module, workload: TorchWorkload, mesh: DeviceMesh | None) -> WrappedModel:
    """The model as the strategy spreads it."""
    workers = dist.get_world_size()
    if mesh is not None:
        narrow = computes_in_bf16(model, workload.precision)
        shard(model, mesh, workload.precision, workload.options.fsdp_group_mb)
        optimizer = make_optimizer(model.parameters(), workload.optimizer, workers)
        return WrappedModel(model, None, optimizer, lambda: unreduced(model), autocast=not narrow)
    if workload.resolved_strategy.one_worker:
        return single(model, _CPU, workload)
    replica = FakeReplicas(model, workload)

    def backward(loss: Tensor) -> None:
        torch.autograd.backward(loss)
        replica.finish()

    optimizer = make_optimizer(model.parameters(), workload.optimizer, workers)
    return WrappedModel(replica, None, optimizer, replica.no_sync, backward=backward)


def _record(
    job: TorchJob, workload: TorchWorkload, model: nn.Module, batch: Batch, mesh: DeviceMesh | None
) -> StepProgram:
    _replace_meta_tensors(model, workload.options.channels_last)
    model = train_mode(recomputed(model, workload.options.activation_checkpointing))
    elements = count_elements(model)
    wrapped = _wrap_model(model, workload, mesh)
    trainer = job.trainer(wrapped)
    allocation = Allocation()
    recorder = StepRecorder(allocation, _axes(mesh), job.trial.point.workers_per_node)
    trainer.watch_sections(cast(Any, _Phases(recorder)))
    batches = split_batch(batch, workload.options.gradient_accumulation)
    with allocation.follow_resizes():
        trainer.update(batches)
        held = allocation.hold_all(_local(model.parameters()))
        allocation.hold_all(_local(model.buffers()))
        allocation.hold_all(batch)
        gradients = allocation.hold_all(_local(each.grad for each in model.parameters() if each.grad is not None))
        states = (value for state in wrapped.optimizer.state.values() for value in state.values())
        optimizer = allocation.hold_all(_local(each for each in states if isinstance(each, Tensor)))
        if isinstance(wrapped.module, FakeReplicas):
            allocation.hold_all(wrapped.module.buckets())
        allocation.begin()
        with recorder:
            trainer.update(batches)
        recorder.finish()
    return StepProgram(
        strategy=workload.resolved_strategy.name,
        workers=job.trial.point.workers,
        torch=str(torch.__version__),
        parameters=elements,
        work=recorder.work,
        exchanges=recorder.exchanges,
        memory=StepMemory(peak=allocation.peak, parameters=held, gradients=gradients, optimizer=optimizer),
    )


class _Phases:
    """Stands in for a trainer's sections: the recorder's phase follows the pass."""

    def __init__(self, recorder: StepRecorder) -> None:
        self.seen: set[str] = set()
        self._recorder = recorder

    def section(self, name: str) -> Any:
        return _Phase(self._recorder, name)

    def watch(self, _: Callable[[], None]) -> None:
        """Nothing ends while a step is recorded."""


class _Phase:
    def __init__(self, recorder: StepRecorder, name: str) -> None:
        self._recorder, self._name = recorder, name

    def __enter__(self) -> None:
        self._recorder.phase = cast(Any, self._name)

    def __exit__(self, *_: object) -> None:
        """The next pass names itself."""


def _build_model(job: TorchJob, workload: TorchWorkload) -> tuple[nn.Module, tuple[int, ...], int]:
    """The model on the meta device, the shape of a sample, and the classes."""
    data = workload.data
    shape = tuple(([data.sequence_length] if data.sequence_length else data.shape) or job.spec.shape)
    classes = data.classes or job.spec.classes
    with torch.device("meta"):
        return models.build(job.spec.name, classes=classes, input_shape=shape), shape, classes


def _mesh(workload: TorchWorkload, workers: int) -> DeviceMesh | None:
    if not workload.resolved_strategy.gathers:
        return None
    sharing = workload.options.shard
    if sharing and workers % sharing:
        raise WorkloadError(f"workload.options.shard: {sharing} does not divide the {workers} workers")
    return mesh_of(_CPU, workers, sharing)


def _batch(job: TorchJob, shape: tuple[int, ...], classes: int) -> Batch:
    size = job.batch * job.workload.data.instances
    if job.spec.kind == "tokens":
        return torch.zeros((size, *shape), dtype=torch.long), torch.zeros((size, *shape), dtype=torch.long)
    inputs = torch.zeros((size, *shape))
    if job.workload.options.channels_last and len(shape) == 3:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    return inputs, torch.zeros(size, dtype=torch.long)


def _replace_meta_tensors(model: nn.Module, channels_last: bool) -> None:
    """Fake tensors in place of the meta tensors that the model was built from; shared ones stay shared."""
    made: dict[int, Tensor] = {}
    for module in model.modules():
        for held, trained in ((module._parameters, True), (module._buffers, False)):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    laid = torch.channels_last if channels_last and tensor.dim() == 4 else torch.contiguous_format
                    fake = torch.empty(tensor.shape, dtype=tensor.dtype).contiguous(memory_format=laid)
                    made[id(tensor)] = nn.Parameter(fake, tensor.requires_grad) if trained else fake
                held[name] = cast(Any, made[id(tensor)])


def _axes(mesh: DeviceMesh | None) -> dict[str, str]:
    """Name of a process group -> dimension of the mesh."""
    names = mesh.mesh_dim_names if mesh is not None else None
    return {mesh.get_group(name).group_name: name for name in names} if mesh is not None and names else {}


def _local(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    for tensor in tensors:
        yield tensor.to_local() if isinstance(tensor, DTensor) else tensor
