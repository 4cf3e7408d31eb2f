"""``program: horovod``: the torch program with Horovod in place of DistributedDataParallel."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from scalecurve_api.features.horovod.fields import WRAPPER, HorovodWorkload
from scalecurve_api.programs.torch_options import CommHook
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.horovod.library import READ_FROM, join, load, version
from scalecurve_worker.process.identity import identify
from scalecurve_worker.torch import traffic
from scalecurve_worker.torch.device import choose_device, set_arithmetic
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.torch.process_group import ask_for_algorithm, join_group
from scalecurve_worker.torch.program import carry_out
from scalecurve_worker.torch.strategies import RankStrategy, Wrap, WrappedModel, count_elements

_HALF = 2


def distributed(library: Any, carrier: str) -> Wrap:
    """Return how Horovod distributes a model: it sums every gradient over ranks as soon as it is computed.

    Parameters, buffers and the optimizer's state are rank 0's before the first step.
    """

    def wrap(model: nn.Module, device: torch.device, workload: HorovodWorkload) -> WrappedModel:
        options, workers = workload.options, library.size()
        half = options.comm_hook is CommHook.fp16
        plain = make_optimizer(model.parameters(), workload.optimizer, workers)
        optimizer = library.DistributedOptimizer(
            plain,
            named_parameters=model.named_parameters(),
            compression=library.Compression.fp16 if half else library.Compression.none,
            backward_passes_per_step=options.gradient_accumulation,
        )
        library.broadcast_parameters(model.state_dict(), root_rank=0)
        # Not broadcast_optimizer_state: it takes a step with gradients of zero to fill the state, which decays
        # weights and counts for Adam.
        optimizer.load_state_dict(library.broadcast_object(optimizer.state_dict(), root_rank=0))
        elements = count_elements(model)
        return WrappedModel(
            model,
            _wrapper(library, optimizer),
            optimizer,
            lambda: _silent(optimizer),
            "horovod-no-all-reduce",
            traffic=lambda: traffic.all_reduced(elements, workers, _HALF if half else traffic.FP32),
            backend=carrier,
            versions={"horovod": version()},
            options=READ_FROM,
        )

    return wrap


def _wrapper(library: Any, optimizer: Any) -> str | None:
    """``DistributedOptimizer`` for an optimizer with Horovod's step: the class it makes has the rule's own name."""
    step = getattr(type(optimizer), "step", None)
    return WRAPPER if getattr(step, "__module__", "").startswith("horovod.torch") else None


@contextmanager
def _silent(optimizer: Any) -> Iterator[None]:
    """Backward passes whose gradients stay each rank's own.

    Horovod's ``synchronize`` takes a function in place of a handle, which it calls for the sum; here it gives the
    gradient back. The parameter's type goes with it, for ``Compression.fp16`` to turn it back into.
    """

    def keep(parameter: Tensor) -> tuple[Any, torch.dtype]:
        return lambda: parameter.grad, parameter.dtype

    optimizer._allreduce_grad_async = keep
    try:
        yield
    finally:
        del optimizer._allreduce_grad_async


def run(trial: TrialSpec) -> None:
    """Train and time one trial on this rank, which mpirun started."""
    workload = trial.workload_as(HorovodWorkload)
    library = load(torch, "workload.program")
    device = choose_device(workload.device, identify().local_rank)
    set_arithmetic(workload.precision, device, workload.options)
    if device.type == "cuda":
        ask_for_algorithm(workload.all_reduce, "nccl")
    # Ranks only meet in this group: no gradient goes through it.
    join_group("gloo", device)

    def probe(name: str) -> object:
        return library.allreduce(torch.ones(1024, device=device), name=name)

    carrier = join(library, workload, device.type == "cuda", probe)
    carry_out(trial, workload, device, RankStrategy(distributed(library, carrier), compares_plain=True))
    library.shutdown()
