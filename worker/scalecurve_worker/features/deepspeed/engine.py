"""A model under DeepSpeed's engine: optimizer state, gradients and parameters shared out by the stage of ZeRO.

S. Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", arXiv:1910.02054. The
loop is DeepSpeed's own: ``engine.backward(loss)`` and ``engine.step()`` for every micro-batch.
"""

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast, overload

import torch
from torch import Tensor, nn

from scalecurve_api.features.deepspeed.fields import DeepSpeed
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import Precision
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.torch.optimizers import make_optimizer
from scalecurve_worker.torch.strategies import RankStrategy, WrappedModel


class EngineOptimizer(torch.optim.Optimizer):
    """The engine's step in the place of an optimizer's; gradients are the engine's, and so is clearing them."""

    def __init__(self, engine: Any, plain: torch.optim.Optimizer) -> None:
        self.engine, self.defaults, self.state = engine, plain.defaults, plain.state
        self.param_groups = engine.optimizer.param_groups

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: the engine clears gradients with its step."""

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """End the last micro-batch: update the parameters."""
        self.engine.step()
        return None


def engine(model: nn.Module, device: torch.device, workload: TorchWorkload) -> WrappedModel:
    """Wrap the model in DeepSpeed's engine with the workload's own optimizer, and with DeepSpeed's bf16.

    Raises:
        WorkloadError: DeepSpeed is not installed, or cannot be imported.
    """
    deepspeed, strategy = _library(device, workload), workload.resolved_strategy
    assert isinstance(strategy, DeepSpeed)
    parts = workload.options.gradient_accumulation
    os.environ.setdefault("LOCAL_RANK", str(identify().local_rank))
    plain = make_optimizer(model.parameters(), workload.optimizer, identify().world)
    wrapped, *_ = deepspeed.initialize(
        model=model,
        optimizer=plain,
        config={
            "train_micro_batch_size_per_gpu": 1,  # for DeepSpeed's own log alone
            "gradient_accumulation_steps": parts,
            "zero_optimization": {"stage": strategy.stage},
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 0.0,  # no other strategy clips; 0.19 would, to a norm of 1
            "bf16": {"enabled": workload.precision is Precision.bf16},
            "steps_per_print": 1 << 40,
        },
    )

    def backward(loss: Tensor) -> None:
        wrapped.backward(loss, scale_wrt_gas=False)
        if not wrapped.is_gradient_accumulation_boundary():
            wrapped.step()

    return WrappedModel(
        wrapped,
        f"{type(wrapped).__name__}, ZeRO-{wrapped.zero_optimization_stage()}",
        EngineOptimizer(wrapped, plain),
        cast(Callable[[], AbstractContextManager[None]], nullcontext),
        unexposed="DeepSpeed's engine has no step without its communication",
        autocast=False,
        backward=backward,
        versions={"deepspeed": str(deepspeed.__version__)},
        options={"optimizer": type(plain).__name__, "zeroStage": strategy.stage},
    )


def _library(device: torch.device, workload: TorchWorkload) -> Any:
    """DeepSpeed, told which device it drives: without a GPU it would look for other accelerators."""
    field = f"workload.strategy: {workload.resolved_strategy}"
    if importlib.util.find_spec("deepspeed") is None:
        raise WorkloadError(f"{field}: DeepSpeed is not installed here; `pip install deepspeed` adds it")
    os.environ.setdefault("DS_ACCELERATOR", "cuda" if device.type == "cuda" else "cpu")
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    try:
        deepspeed = importlib.import_module("deepspeed")
    except Exception as error:  # its extensions are compiled for one torch
        raise WorkloadError(f"{field}: DeepSpeed does not import: {type(error).__name__}: {error}") from error
    deepspeed.utils.logger.setLevel(logging.WARNING)
    return deepspeed


ENGINE = RankStrategy(engine, initial_checksum=True)
