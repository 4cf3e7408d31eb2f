"""DDP's communication hooks: their choice, and what they send. DDP inspects their annotations (no strings: PEP 563)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.programs.torch_options import CommHook, TorchOptions
from scalecurve_api.record.rank import Traffic
from scalecurve_worker.features.compression.encodings import Code, EightBit, OneBit, TopK
from scalecurve_worker.torch import traffic

# Its older name is deprecated in torch 2.14, its newer one unknown before.
_all_gather: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
# Steps before PowerSGD begins: DDP arranges its buckets anew after the first one.
_FIRST_COMPRESSED = 2


class ErrorFeedback:
    """State of a hook that sends encoded gradients and adds to the next ones what the code lost.

    S. P. Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", arXiv:1901.09847.
    The first step goes uncompressed: DDP arranges its buckets anew after it, and what is left over belongs to places
    in a bucket.
    """

    def __init__(self, code: Code) -> None:
        self.code = code
        self._left: dict[int, Tensor] = {}
        self._sizes: dict[int, int] = {}
        self._began = False

    def payload_bytes(self) -> float:
        """Return the bytes that one worker sends in a step, as last compressed."""
        return float(sum(self._sizes.values()))

    def mean(self, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Average over all workers what they could encode of their gradients."""
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
    future: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future


def error_feedback(state: ErrorFeedback, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Average a bucket with error feedback: the hook to register with an ``ErrorFeedback``."""
    return state.mean(bucket)


def bf16(state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Reduce in bf16, as torch's own hook does.

    Builds without CUDA refuse that one by its name, and gloo reduces bf16 just as well.
    """
    group: Any = None
    return default_hooks.bf16_compress_hook(group, bucket)


def power_sgd(state: powerSGD_hook.PowerSGDState, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Compress a bucket by torch's own PowerSGD; on gloo each bucket is waited for.

    The hook starts its second all-reduce in a callback of the first. NCCL's callbacks run in the order of the buckets,
    gloo's as they come, another order on every rank, and then different buckets meet in one all-reduce.
    """
    future = powerSGD_hook.powerSGD_hook(state, bucket)
    if dist.get_backend() != dist.Backend.GLOO:
        return future
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(future.wait())
    return done


def compress(model: DistributedDataParallel, options: TorchOptions) -> Callable[[], Traffic] | None:
    """Register the hook; what tells the traffic of a step afterwards, or None without a hook."""
    elements = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    workers = dist.get_world_size()
    match options.comm_hook:
        case CommHook.none:
            return None
        case CommHook.fp16 | CommHook.bf16:
            half = default_hooks.fp16_compress_hook if options.comm_hook is CommHook.fp16 else bf16
            model.register_comm_hook(None, half)
            return lambda: traffic.all_reduced(elements, workers, 2, f"by size: all-reduce in {options.comm_hook}")
        case CommHook.powersgd:
            return _power_sgd(model, options.comm_hook_rank, elements, workers)
        case CommHook.top_k:
            hook = ErrorFeedback(TopK(options.comm_hook_density))
        case _:
            hook = ErrorFeedback(EightBit() if options.comm_hook is CommHook.eight_bit else OneBit())
    model.register_comm_hook(hook, error_feedback)
    return lambda: traffic.all_gathered(hook.payload_bytes(), elements, workers, f"counted: {hook.code.name}")


def _power_sgd(model: DistributedDataParallel, rank: int, elements: int, workers: int) -> Callable[[], Traffic]:
    """T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD", arXiv:1905.13727, as torch has it, with error feedback."""
    state = powerSGD_hook.PowerSGDState(
        process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=_FIRST_COMPRESSED
    )
    model.register_comm_hook(state, power_sgd)

    def sent() -> Traffic:
        rate, _, compressed = state.compression_stats()  # type: ignore[no-untyped-call]
        reduced = round(elements / rate) if compressed else elements
        how = "counted by PowerSGD's own state: all-reduces of P, Q, vectors"
        counted = traffic.all_reduced(reduced, workers, how=how)
        return counted.model_copy(update={"plain_payload_bytes": float(elements * traffic.FP32)})

    return sent
