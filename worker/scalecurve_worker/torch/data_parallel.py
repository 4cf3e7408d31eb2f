"""DataParallel with threads that last, an option of strategy ``dp``."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import nn


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
        """Outputs in the order of the devices; a replica's error is raised when all have ended."""
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
