"""DDP by its rules, on fake tensors: its reducer, written in C++, reads addresses that fake tensors do not have.

Buckets are those of torch's own function, in the order in which gradients come, as DDP arranges them after its first
step; each is all-reduced when it and those before it are full, and copied back at the end of the backward pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.torch_options import BatchNormMode, CommHook
from scalecurve_worker.features.compression.encodings import Code, EightBit, OneBit, TopK
from scalecurve_worker.process.failure import WorkloadError

_MIB = 1 << 20
_DEFAULT_CAP_MB = 25  # torch.nn.parallel.distributed
_HALF = {CommHook.fp16: torch.float16, CommHook.bf16: torch.bfloat16}
# Their newer names are unknown to older builds, which the older ones are not.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_first_bucket: int = getattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", _MIB)
_assign: Any = getattr(dist, "_compute_bucket_assignment_by_size")  # noqa: B009  # not in torch's stubs


class Bucket:
    """Gradients that are sent together."""

    def __init__(self, members: list[nn.Parameter]) -> None:
        self.members = members
        self.buffer = torch.empty(sum(each.numel() for each in members), dtype=members[0].dtype)
        sizes = [each.numel() for each in members]
        parts = zip(torch.split(self.buffer, sizes), members, strict=True)
        self.views = {id(each): part.view(each.shape) for part, each in parts}
        self.message: Tensor | None = None
        self.left: Tensor | None = None
        self.missing = len(members)


class FakeReplicas(nn.Module):
    """One replica; call :meth:`finish` after each backward pass that communicates."""

    def __init__(self, module: nn.Module, workload: TorchWorkload) -> None:
        super().__init__()
        self.module = module
        self._options = workload.options
        self._broadcasts = workload.batch_norm is not BatchNormMode.local
        self._code = _code_of(workload)
        self._buckets: list[Bucket] = []
        self._order: list[nn.Parameter] = []
        self._of: dict[int, Bucket] = {}
        self._sent = 0
        self._sync = True
        for parameter in module.parameters():
            if parameter.requires_grad:
                watch: Any = parameter.register_post_accumulate_grad_hook
                watch(self._ready)

    def forward(self, inputs: Tensor) -> Any:
        if self._sync and self._broadcasts:
            self._broadcast()
        return self.module(inputs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients without sending them."""
        self._sync = False
        try:
            yield
        finally:
            self._sync = True

    def finish(self) -> None:
        """Wait for the buckets and take their means; after the first pass, arrange the buckets."""
        if not self._sync:
            return
        if not self._buckets:
            self._arrange()
            return
        for bucket in self._buckets:
            self._receive(bucket)
            for parameter in bucket.members:
                if not self._options.gradient_as_bucket_view:
                    assert parameter.grad is not None
                    parameter.grad.copy_(bucket.views[id(parameter)])
            bucket.missing = len(bucket.members)
        self._sent = 0

    def buckets(self) -> list[Tensor]:
        """Return the buffers of all buckets."""
        return [each.buffer for each in self._buckets]

    def _ready(self, parameter: nn.Parameter) -> None:
        if not self._sync:
            return
        if not self._buckets:
            self._order.append(parameter)
            return
        bucket = self._of[id(parameter)]
        view = bucket.views[id(parameter)]
        assert parameter.grad is not None
        torch.mul(parameter.grad, 1 / dist.get_world_size(), out=view)
        if self._options.gradient_as_bucket_view:
            parameter.grad = view
        bucket.missing -= 1
        while self._sent < len(self._buckets) and not self._buckets[self._sent].missing:
            self._send(self._buckets[self._sent])
            self._sent += 1

    def _arrange(self) -> None:
        cap = self._options.bucket_cap_mb
        limits = [_first_bucket, _DEFAULT_CAP_MB * _MIB] if cap is None else [int(cap * _MIB)]
        places = list(range(len(self._order)))
        assigned, _ = _assign([each.detach() for each in self._order], limits, [False] * len(places), places)
        self._buckets = [Bucket([self._order[place] for place in group]) for group in assigned]
        self._of = {id(each): bucket for bucket in self._buckets for each in bucket.members}

    def _send(self, bucket: Bucket) -> None:
        if self._code is None:
            half = _HALF.get(self._options.comm_hook)
            bucket.message = bucket.buffer if half is None else bucket.buffer.to(half)
            dist.all_reduce(bucket.message, async_op=True)
            return
        target = bucket.buffer if bucket.left is None else bucket.buffer + bucket.left
        own = self._code.encode(target)
        bucket.left = target - self._code.decode(own, target.numel())
        bucket.message = torch.empty(dist.get_world_size() * own.numel(), dtype=torch.uint8)
        _all_gather(bucket.message, own, async_op=True)

    def _receive(self, bucket: Bucket) -> None:
        message, workers = bucket.message, dist.get_world_size()
        bucket.message = None
        assert message is not None
        if self._code is not None:
            bucket.buffer.zero_()
            for each in message.chunk(workers):
                bucket.buffer.add_(self._code.decode(each, bucket.buffer.numel()), alpha=1 / workers)
        elif message is not bucket.buffer:
            bucket.buffer.copy_(message)

    def _broadcast(self) -> None:
        """Rank 0's buffers, all of one type together."""
        with torch.no_grad():
            for dtype in dict.fromkeys(each.dtype for each in self.module.buffers()):
                buffers = [each for each in self.module.buffers() if each.dtype is dtype]
                flat = torch.cat([each.flatten() for each in buffers])
                dist.broadcast(flat, 0, async_op=True)
                for part, each in zip(torch.split(flat, [each.numel() for each in buffers]), buffers, strict=True):
                    each.copy_(part.view(each.shape))


def _code_of(workload: TorchWorkload) -> Code | None:
    options = workload.options
    match options.comm_hook:
        case CommHook.eight_bit:
            return EightBit()
        case CommHook.one_bit:
            return OneBit()
        case CommHook.top_k:
            return TopK(options.comm_hook_density)
        case CommHook.powersgd:
            raise WorkloadError("workload.options.commHook: powersgd is not projected; use another hook or none")
    return None
