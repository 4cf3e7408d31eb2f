"""Activation checkpointing: what the backward pass computes again instead of keeping it.

``full`` keeps the input of each block alone. ``selective`` also keeps the outputs of attention and of every second
matrix product, as torchtitan does (``torchtitan/distributed/activation_checkpoint.py``): the dearest to compute.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper, checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from scalecurve_api.programs.torch_options import Recomputation
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch.sharding import containers_of

Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]
_contexts: Callable[[Any], Contexts] = create_selective_checkpoint_contexts  # untyped in torch
_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
# Not all of them are in every build of torch.
_ATTENTION = [
    getattr(torch.ops.aten, f"_scaled_dot_product_{kind}").default
    for kind in (
        "flash_attention",
        "flash_attention_for_cpu",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
    if hasattr(torch.ops.aten, f"_scaled_dot_product_{kind}")
]


def recomputed(model: nn.Module, mode: Recomputation) -> nn.Module:
    """Wrap the model's blocks, in place, so that their backward pass computes them again; return the model.

    Raises:
        WorkloadError: the model is not made of blocks.
    """
    if mode is Recomputation.none:
        return model
    containers = list(containers_of(model))
    if not containers:
        name = type(model).__name__
        raise WorkloadError(f"workload.options.activationCheckpointing: {mode}: {name} is not made of blocks; use none")
    options: dict[str, Any] = {} if mode is Recomputation.full else {"context_fn": _block_contexts}
    for blocks in containers:
        for index, block in enumerate(blocks):
            blocks[index] = checkpoint_wrapper(block, **options)
    return model


def plain(model: nn.Module) -> None:
    """Let the blocks of a model run without being recomputed; for counting what the model itself computes."""
    for module in model.modules():
        if isinstance(module, CheckpointWrapper):
            module.checkpoint_fn = partial(_call)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _block_contexts() -> Contexts:
    """The contexts of one block's forward pass and of its repetition."""
    return _contexts(partial(_policy, Counter()))


def _policy(products: Counter[bool], context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Keep attention and every second product; ``products`` counts them, the first pass apart from the repetition."""
    if operator in _PRODUCTS:
        products[context.is_recompute] += 1
        kept = products[context.is_recompute] % 2 == 1
    else:
        kept = operator in _ATTENTION
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
