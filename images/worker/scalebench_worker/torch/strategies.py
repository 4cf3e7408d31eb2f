"""How a model is spread over workers; one function for each strategy of this release."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalebench_api.experiment import Options, Strategy
from scalebench_worker.failure import WorkloadError


@dataclass(frozen=True)
class Spread:
    """A model ready to train.

    ``no_sync`` is the context in which a backward pass leaves out the all-reduce; ``no_sync_method`` names it in the
    record, and is None where the strategy has none. ``learns_graph`` means that the first update cannot be without it.
    """

    module: nn.Module
    wrapper: str | None
    no_sync: Callable[[], AbstractContextManager[None]] = field(default=nullcontext)
    no_sync_method: str | None = None
    learns_graph: bool = False


Wrap = Callable[[nn.Module, torch.device, Options], Spread]


def single(model: nn.Module, device: torch.device, options: Options) -> Spread:
    """One worker without any wrapper."""
    return Spread(model, None)


def ddp(model: nn.Module, device: torch.device, options: Options) -> Spread:
    """DistributedDataParallel: replicas, with gradients all-reduced in buckets during the backward pass.

    Raises:
        WorkloadError: static_graph with compile, which torch refuses late and badly (pytorch#93672).
    """
    if options.static_graph and options.compile:
        raise WorkloadError("workload.options.staticGraph: not together with compile; set one of them to false")
    wrapped = DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=options.gradient_as_bucket_view,
        static_graph=options.static_graph,
        # None is torch's own default.
        bucket_cap_mb=options.bucket_cap_mb,
    )
    return Spread(wrapped, type(wrapped).__name__, wrapped.no_sync, "ddp-no-sync", options.static_graph)


STRATEGIES: dict[Strategy, Wrap] = {Strategy.single: single, Strategy.ddp: ddp}


def strategy(name: Strategy) -> Wrap:
    """Look a strategy up.

    Raises:
        WorkloadError: not in this release.
    """
    if name not in STRATEGIES:
        allowed = ", ".join(STRATEGIES)
        raise WorkloadError(f"workload.strategy: {name.value} is not in this release; allowed: {allowed}")
    return STRATEGIES[name]
