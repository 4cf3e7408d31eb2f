"""Selects and registers DDP's communication hook, and counts what it sends."""

from collections.abc import Callable

import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from scalecurve_api.programs.torch import CommHook, TorchOptions
from scalecurve_api.record.rank import Traffic
from scalecurve_worker.extras.compression.encodings import Code, EightBit, OneBit, TopK
from scalecurve_worker.extras.compression.hooks import ErrorFeedback, bf16, error_feedback, power_sgd
from scalecurve_worker.torch import traffic

FIRST_COMPRESSED = 2
"""Steps before PowerSGD begins: DDP arranges its buckets anew after the first one."""


def compress(model: DistributedDataParallel, options: TorchOptions) -> Callable[[], Traffic] | None:
    """Register the hook; what tells the traffic of a step afterwards, or None without a hook."""
    elements = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    workers = dist.get_world_size()
    match options.comm_hook:
        case CommHook.none:
            return None
        case CommHook.fp16:
            model.register_comm_hook(None, default_hooks.fp16_compress_hook)
            return lambda: traffic.all_reduced(elements, workers, 2, "by size: all-reduce in fp16")
        case CommHook.bf16:
            model.register_comm_hook(None, bf16)
            return lambda: traffic.all_reduced(elements, workers, 2, "by size: all-reduce in bf16")
        case CommHook.powersgd:
            return _power_sgd(model, options.comm_hook_rank, elements, workers)
    hook = ErrorFeedback(_code(options))
    model.register_comm_hook(hook, error_feedback)
    return lambda: traffic.all_gathered(hook.payload_bytes(), elements, workers, f"counted: {hook.how}")


def _power_sgd(model: DistributedDataParallel, rank: int, elements: int, workers: int) -> Callable[[], Traffic]:
    """T. Vogels, S. P. Karimireddy, M. Jaggi, "PowerSGD", arXiv:1905.13727, as torch has it, with error feedback."""
    state = powerSGD_hook.PowerSGDState(
        process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=FIRST_COMPRESSED
    )
    model.register_comm_hook(state, power_sgd)

    def sent() -> Traffic:
        stats: tuple[float, int, int] = state.compression_stats()  # type: ignore[no-untyped-call]
        rate, _, compressed = stats
        reduced = round(elements / rate) if compressed else elements
        counted = traffic.all_reduced(
            reduced, workers, how="counted by PowerSGD's own state: all-reduces of P, Q, vectors"
        )
        return counted.model_copy(update={"plain_payload_bytes": float(elements * traffic.FP32)})

    return sent


def _code(options: TorchOptions) -> Code:
    if options.comm_hook is CommHook.top_k:
        return TopK(options.comm_hook_density)
    return EightBit() if options.comm_hook is CommHook.eight_bit else OneBit()
