"""Tells the sections of a step from outside of a torch program: only while a few untimed steps run.

What torch.compile has compiled is left alone where a function of torch stands in it: another function in its place
would be compiled anew, and break the graph.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch.explain.step_flops import compiles

_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
)
_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "smooth_l1_loss",
)


def watch_program(sections: Sections, model: nn.Module | None, device: torch.device) -> None:
    """Watch anyone's program: passes of its model, losses, backward passes, updates, copies and communication."""
    if model is not None:
        sections.seen.add("forward")
        before = model.register_forward_pre_hook(lambda *_: sections.enter("forward"))
        after = model.register_forward_hook(lambda *_: sections.leave(), always_call=True)
        sections.watch(before.remove, after.remove)
    sections.seen |= {"backward", "optimizer"}
    _inside(sections, torch.autograd, "backward", "backward")
    started = register_optimizer_step_pre_hook(lambda *_: sections.enter("optimizer"))
    ended = register_optimizer_step_post_hook(lambda *_: sections.leave())
    sections.watch(started.remove, ended.remove)
    if not compiles():
        for name in _LOSSES:
            _inside(sections, torch.nn.functional, name, "forward")
        watch_copies(sections, device)
    watch_communication(sections)


def watch_copies(sections: Sections, device: torch.device) -> None:
    """Watch copies of tensors to a GPU and back; on a CPU there are none."""
    if device.type == "cuda":
        sections.seen.add("transfer")
        for name in ("to", "cuda", "cpu"):
            _inside(sections, torch.Tensor, name, "transfer")


def watch_communication(sections: Sections) -> None:
    """Watch calls of torch.distributed, and waiting for those that were begun before."""
    if not (dist.is_available() and dist.is_initialized()):
        return
    sections.seen.add("communication")
    for name in _COLLECTIVES:
        _inside(sections, dist, name, "communication")
    _inside(sections, dist.Work, "wait", "communication")


def _inside(sections: Sections, owner: Any, name: str, section: str) -> None:
    """Calls of a function of a module or class are in this section, until ``sections`` is closed."""
    original: Callable[..., Any] | None = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def watched(*arguments: Any, **keywords: Any) -> Any:
        sections.enter(section)
        try:
            return original(*arguments, **keywords)
        finally:
            sections.leave()

    own = name in vars(owner)
    setattr(owner, name, watched)
    sections.watch(lambda: setattr(owner, name, original) if own else delattr(owner, name))
