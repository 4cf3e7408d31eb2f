"""DDP communication hooks. DDP inspects their annotations, so they must not be strings (PEP 563)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from scalecurve_worker.extras.compression.encodings import Code

# Its older name is deprecated in torch 2.14, its newer one unknown before.
_all_gather: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class ErrorFeedback:
    """State of a hook that sends encoded gradients and adds to the next ones what the code lost.

    S. P. Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", arXiv:1901.09847.
    The first step goes uncompressed: DDP arranges its buckets anew after it, and what is left over belongs to places
    in a bucket.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self.how = code.name
        self._left: dict[int, Tensor] = {}
        self._sizes: dict[int, int] = {}
        self._began = False

    def payload_bytes(self) -> float:
        """Bytes that one worker hands over in a step, of those that were compressed last."""
        return float(sum(self._sizes.values()))

    def mean(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """The mean over all workers of what they could write of their gradients."""
        gradients = bucket.buffer()
        if not self._began:
            self._began = bucket.is_last()
            return _mean(gradients)
        index, elements, workers = bucket.index(), gradients.numel(), dist.get_world_size()
        left = self._left.get(index)
        target = gradients.float() if left is None else gradients.float() + left
        message = self.code.encode(target)
        self._left[index] = target - self.code.decode(message, elements)
        self._sizes[index] = message.numel()
        messages = torch.empty(workers * message.numel(), dtype=torch.uint8, device=message.device)
        work = _all_gather(messages, message, async_op=True)

        def decoded(_: object) -> Tensor:
            gradients.zero_()
            for each in messages.chunk(workers):
                gradients.add_(self.code.decode(each, elements), alpha=1 / workers)
            return gradients

        future: torch.futures.Future[Tensor] = work.get_future().then(decoded)
        return future


def _mean(gradients: Tensor) -> torch.futures.Future[Tensor]:
    gradients.div_(dist.get_world_size())
    work: Any = dist.all_reduce(gradients, async_op=True)
    future: torch.futures.Future[Tensor] = work.get_future().then(_first)
    return future


def _first(done: torch.futures.Future[list[Tensor]]) -> Tensor:
    return done.value()[0]


def error_feedback(state: ErrorFeedback, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook to register with an ``ErrorFeedback``."""
    return state.mean(bucket)


def bf16(state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """torch's own, by another name: builds without CUDA refuse that one, and gloo reduces bf16 just as well."""
    group: Any = None
    return default_hooks.bf16_compress_hook(group, bucket)


def power_sgd(state: powerSGD_hook.PowerSGDState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """torch's own; on gloo each bucket is waited for.

    The hook starts its second all-reduce in a callback of the first. NCCL's callbacks run in the order of the buckets,
    gloo's as they come, another order on every rank, and then different buckets meet in one all-reduce.
    """
    future = powerSGD_hook.powerSGD_hook(state, bucket)
    if dist.get_backend() != dist.Backend.GLOO:
        return future
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(future.wait())
    return done
