"""Parallelism strategies: each function makes a model ready to train over all workers."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.programs.torch import TorchTraining, TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode, CommHook
from scalecurve_api.record.rank import Traffic
from scalecurve_api.registry import Registry
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.programs import extra
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch import traffic
from scalecurve_worker.torch.data import Batch
from scalecurve_worker.torch.optimizers import groups_of, make_optimizer, rule_of
from scalecurve_worker.torch.sharding import computes_in_bf16, mesh_of, shard, unreduced


class KeptThreads(nn.DataParallel[nn.Module]):
    """torch's DataParallel, but that each GPU keeps one thread for all its forward passes.

    torch starts a thread for each GPU in every step, and cuDNN's choices of convolutions are remembered by thread
    (a ``thread_local`` cache in ATen's ``cudnn/Conv_v8.cpp``): they are made again in every step, which is one half of
    ResNet-50's step on two H200s.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.threads = [ThreadPoolExecutor(1, f"replica-{index}") for index in range(len(self.device_ids))]

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Return outputs in the order of the devices; a replica's error is raised when all have ended."""
        grad = torch.is_grad_enabled()
        narrow, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")

        def forward(index: int) -> Any:
            with (
                torch.set_grad_enabled(grad),
                torch.cuda.device(self.device_ids[index]),
                torch.autocast("cuda", dtype=dtype, enabled=narrow),
            ):
                return replicas[index](*inputs[index], **kwargs[index])

        begun = [self.threads[index].submit(forward, index) for index in range(len(replicas))]
        failed = [error for each in begun if (error := each.exception()) is not None]
        if failed:
            raise failed[0]
        return [each.result() for each in begun]


Update = Callable[[list[Batch]], Tensor]  # one optimizer update over micro-batches; their mean loss


class RemoteParameters(Protocol):
    """Parameters that are held outside the workers, with the loop that trains them."""

    def train(self, bench: Bench, update: Update, batches: Iterator[list[Batch]], samples: int) -> None:
        """Run every timed step."""

    def settle(self) -> None:
        """Wait for all workers' updates, and take the parameters."""

    def watch_sections(self, sections: Sections) -> None:
        """Tell of waiting for servers, until ``sections`` is closed."""

    def close(self) -> None:
        """Leave; collective."""


@dataclass(frozen=True)
class WrappedModel:
    """A model ready to train, with its optimizer.

    ``no_sync`` is the context in which a backward pass skips its communication; ``exposed`` names the method that
    takes communication out of a step, and is None where there is none, which ``unexposed`` then explains.
    ``learns_graph`` means that the first update cannot be without communication. ``remote`` is set where workers
    do not hold the parameters, and ``gpus`` are those that this one process drives, where there is one for all.
    ``backend`` carries the gradients where that is not the group's own library. ``autocast`` is false where the module
    computes in a narrower type by itself. ``backward`` is the backward pass of a loss. ``settle`` ends with equal
    parameters on all ranks, for those that differ between two exchanges.
    """

    module: nn.Module
    wrapper: str | None
    optimizer: torch.optim.Optimizer
    no_sync: Callable[[], AbstractContextManager[None]] = field(default=nullcontext)
    exposed: str | None = None
    unexposed: str | None = None
    learns_graph: bool = False
    traffic: Callable[[], Traffic | None] = field(default=lambda: None)
    remote: RemoteParameters | None = None
    gpus: Sequence[int] = ()
    backend: str | None = None
    autocast: bool = True
    backward: Callable[[Tensor], None] = field(default=torch.autograd.backward)
    settle: Callable[[], None] = field(default=lambda: None)
    versions: dict[str, str] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict)


synchronized: Callable[[nn.Module], nn.Module] = nn.SyncBatchNorm.convert_sync_batchnorm  # untyped in torch
# torch 2.14 deprecates the older name.
_NAMES = inspect.signature(DistributedDataParallel.__init__).parameters
_SYNC_BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers"

Wrap = Callable[[nn.Module, torch.device, Any], WrappedModel]


@dataclass(frozen=True)
class RankStrategy:
    """What one rank does for a strategy; another package adds one by an entry point in the group of the registry below.

    ``wrap`` makes a model ready to train over all workers, and says what a step sends (``WrappedModel.traffic``).
    ``measure`` times the training of a job on its data where no model is wrapped, and returns the bench and a
    checksum of the parameters. ``compares_plain`` times one worker without the wrapper, too; ``initial_checksum``
    records the parameters before the first step.
    """

    wrap: Wrap
    measure: Callable[[Any, Any], tuple[Bench, str]] | None = None
    compares_plain: bool = False
    initial_checksum: bool = False


def single(model: nn.Module, device: torch.device, workload: TorchTraining) -> WrappedModel:
    """Return one worker's model without any wrapper."""
    return WrappedModel(model, None, make_optimizer(model.parameters(), workload.optimizer))


def ddp(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Wrap in DistributedDataParallel: replicas, gradients all-reduced in buckets during the backward pass."""
    options, workers = workload.options, dist.get_world_size()
    wrapped = _replicate(model, device, workload)
    sent = None if options.comm_hook is CommHook.none else extra("comm-hook")(wrapped, options)
    return WrappedModel(
        wrapped,
        type(wrapped).__name__,
        make_optimizer(wrapped.parameters(), workload.optimizer, workers),
        wrapped.no_sync,
        "ddp-no-sync",
        learns_graph=options.static_graph,
        traffic=lambda: _and_norms(
            sent() if sent else traffic.all_reduced(count_elements(model), workers), wrapped, workers
        ),
    )


def zero1(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Wrap in DDP with the optimizer's state shared out: every rank updates its parameters and broadcasts them.

    S. Rajbhandari et al., "ZeRO", arXiv:1910.02054, stage 1, as torch's ZeroRedundancyOptimizer has it.
    """
    workers = dist.get_world_size()
    wrapped = _replicate(model, device, workload)
    kind, arguments = rule_of(workload.optimizer, workers, device.type)
    parameters = groups_of(wrapped.parameters(), workload.optimizer)
    optimizer = ZeroRedundancyOptimizer(parameters, optimizer_class=kind, **arguments)
    return WrappedModel(
        wrapped,
        f"{type(wrapped).__name__} + {type(optimizer).__name__}",
        optimizer,
        wrapped.no_sync,
        unexposed="no_sync skips the all-reduce of gradients and not the broadcast of parameters",
        traffic=lambda: _and_norms(traffic.zero1(count_elements(model), workers), wrapped, workers),
    )


def fsdp(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Shard with FSDP2: every rank holds a share of parameters, gradients and optimizer state.

    HSDP with ``options.shard``.
    """
    workers, options = dist.get_world_size(), workload.options
    if options.shard and workers % options.shard:
        raise WorkloadError(f"workload.options.shard: {options.shard} does not divide the {workers} workers")
    if workload.batch_norm is BatchNormMode.synchronized:
        model = synchronized(model)
    elements, narrow = count_elements(model), computes_in_bf16(model, workload.precision)
    mesh = mesh_of(device, workers, options.shard)
    sharded = shard(model, mesh, workload.precision, options.fsdp_group_mb)
    return WrappedModel(
        model,
        FSDPModule.__name__ if isinstance(model, FSDPModule) else None,
        make_optimizer(model.parameters(), workload.optimizer, workers),
        lambda: unreduced(model),
        unexposed="all-gathers are a part of the forward pass: there is no step without them",
        traffic=lambda: traffic.fsdp(sharded.gathered, elements, tuple(mesh.shape), sharded.dtype.itemsize),
        autocast=not narrow,
        options={
            "fsdpGroupMb": options.fsdp_group_mb,
            "fsdpParameterType": str(sharded.dtype).removeprefix("torch."),
            "fsdpGroups": len(sharded.groups),
            **({"shard": options.shard} if options.shard else {}),
        },
    )


def dp(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Wrap in DataParallel: this process drives every GPU it sees, and copies the model to each in every step."""
    kept, searches = workload.options.keep_threads, workload.options.cudnn_benchmark
    if not kept and searches is None:
        # cuDNN's search is remembered by thread, and would be made in every step: 1,256 ms of ResNet-50 on two H200s.
        torch.backends.cudnn.benchmark = False
    wrapped = KeptThreads(model) if kept else nn.DataParallel(model)
    workers = max(1, len(wrapped.device_ids))
    return WrappedModel(
        wrapped,
        nn.DataParallel.__name__,
        make_optimizer(wrapped.parameters(), workload.optimizer, workers),
        gpus=wrapped.device_ids if device.type == "cuda" else [],
        unexposed="copies to and from the other GPUs are a part of the forward pass: there is no step without them",
        options={"keepThreads": kept},
    )


def count_elements(model: nn.Module) -> int:
    """Count the elements of all parameters that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _mebibytes(model: nn.Module) -> int:
    """Room for every gradient."""
    return 1 + sum(each.nbytes for each in model.parameters() if each.requires_grad) // (1 << 20)


def _replicate(model: nn.Module, device: torch.device, workload: TorchWorkload) -> DistributedDataParallel:
    options, norm = workload.options, workload.batch_norm
    # torch refuses this late, with an internal error (pytorch#93672).
    if options.static_graph and options.compile:
        raise WorkloadError("workload.options.staticGraph: cannot be combined with compile; set one of them to false")
    if norm is BatchNormMode.synchronized:
        model = synchronized(model)
    further: dict[str, Any] = {_SYNC_BUFFERS: False} if norm is BatchNormMode.local else {}
    return DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
        static_graph=options.static_graph,
        **further,
        # None is torch's own default. A bucket of its own size also replaces the smaller first one.
        bucket_cap_mb=options.bucket_cap_mb if options.overlap else _mebibytes(model),
    )


def _and_norms(sent: Traffic, wrapped: DistributedDataParallel, workers: int) -> Traffic:
    """Gradients, and what the batch norms send: rank 0's running statistics, or those of the whole global batch."""
    norms = [layer for layer in wrapped.modules() if isinstance(layer, nn.SyncBatchNorm) and layer.training]
    sent = traffic.add_synchronized_norms(sent, [layer.num_features for layer in norms], workers)
    if not getattr(wrapped, _SYNC_BUFFERS):
        return sent
    return traffic.add_buffers(sent, sum(each.nbytes for each in wrapped.buffers()), workers)


STRATEGIES: Registry[RankStrategy] = Registry(
    "scalecurve_worker.torch_strategies",
    "strategy of program torch",
    RankStrategy,
    {
        "single": RankStrategy(single),
        "ddp": RankStrategy(ddp, compares_plain=True),
        "zero1": RankStrategy(zero1),
        "fsdp": RankStrategy(fsdp, initial_checksum=True),
        "dp": RankStrategy(dp, initial_checksum=True),
    },
)


def state_tensors(wrapped: WrappedModel) -> list[Tensor]:
    """List everything a step changes: parameters, buffers, and the optimizer's tensors."""
    state = [value for each in wrapped.optimizer.state.values() for value in each.values() if isinstance(value, Tensor)]
    return [*wrapped.module.parameters(), *wrapped.module.buffers(), *state]
