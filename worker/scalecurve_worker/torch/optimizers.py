"""Optimizers: torch's own, and LARS and LAMB for large batches."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from scalecurve_api.programs.optimizer import Optimizer


def rule_of(
    optimizer: Optimizer, workers: int = 1, device: str = "cpu"
) -> tuple[type[torch.optim.Optimizer], dict[str, Any]]:
    """Return the class and its arguments.

    Adam and AdamW on a GPU are the fused ones, as in torchtitan, nanoGPT and Transformers' Trainer, unless ``fused``
    says otherwise. What no field sets is torch's own default. The rate is the scaled one where scaling is
    asked for; a warm-up is for trainings to accuracy.
    """
    rate = optimizer.learning_rate * (workers if optimizer.scale_with_workers else 1)
    common = {"lr": rate, "weight_decay": optimizer.weight_decay}
    adam = optimizer.name in ("adam", "adamw") and device == "cuda"
    fused = {"fused": True} if (adam if optimizer.fused is None else optimizer.fused) else {}
    match optimizer.name:
        case "sgd":
            momentum = {"momentum": optimizer.momentum, "nesterov": optimizer.nesterov}
            return torch.optim.SGD, {**common, **momentum, **fused}
        case "adam":
            return torch.optim.Adam, {**common, **fused}
        case "adamw":
            return torch.optim.AdamW, {**common, **fused}
        case "adadelta":
            return torch.optim.Adadelta, {**common, "rho": optimizer.rho}
        case "adagrad":
            return torch.optim.Adagrad, {**common, **fused}
        case "rmsprop":
            return torch.optim.RMSprop, {**common, "alpha": optimizer.rho}
        case "lars":
            return LARS, {**common, "momentum": optimizer.momentum, "trust": optimizer.trust}
        case "lamb":
            return LAMB, common


def make_optimizer(parameters: Iterable[Tensor], optimizer: Optimizer, workers: int = 1) -> torch.optim.Optimizer:
    """Make an optimizer over all parameters of a model that are trained."""
    trained = [each for each in parameters if each.requires_grad]
    kind, arguments = rule_of(optimizer, workers, trained[0].device.type)
    return kind(groups_of(trained, optimizer), **arguments)


def groups_of(parameters: Iterable[Tensor], optimizer: Optimizer) -> list[Tensor] | list[dict[str, Any]]:
    """Return all parameters that are trained, or apart from the others the vectors, which then do not decay.

    Biases and the parameters of norms are all the vectors that there are. That they should not decay is X. Jia et al.,
    "Highly scalable deep learning training system", arXiv:1807.11205, section 3.2.
    """
    trained = [each for each in parameters if each.requires_grad]
    if optimizer.decay_norm or not optimizer.weight_decay:
        return trained
    decayed = [each for each in trained if each.dim() > 1]
    others = [each for each in trained if each.dim() <= 1]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


class _ByLayer(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, self.state[parameter], group)
        return loss

    def _update(self, weight: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError


class LARS(_ByLayer):
    """Layer-wise adaptive rate scaling: Y. You, I. Gitman, B. Ginsburg, arXiv:1708.03888, algorithm 1.

    Vectors (biases, norms' weights) are neither scaled nor decayed, as everybody who reproduced it does.
    """

    # Horovod makes an optimizer of the same class anew, from groups that have all of these.
    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    def _update(self, weight: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if weight.dim() > 1:
            norm, decay = torch.linalg.vector_norm(weight), group["weight_decay"]
            ratio = group["trust"] * norm / (torch.linalg.vector_norm(gradient) + decay * norm + 1e-12)
            # A layer of zeros would never move; a value on the device is never read.
            ratio = torch.where(norm > 0, ratio, torch.ones_like(ratio))
            gradient = gradient.add(weight, alpha=decay) * ratio
        velocity = state.get("momentum_buffer")
        if velocity is None:
            velocity = state["momentum_buffer"] = torch.zeros_like(weight)
        velocity.mul_(group["momentum"]).add_(gradient, alpha=group["lr"])
        weight.sub_(velocity)


class LAMB(_ByLayer):
    """Adam's direction, scaled by layer: Y. You et al., arXiv:1904.00962, algorithm 2, with Adam's bias correction."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "betas": betas})

    def _update(self, weight: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        first, second = group["betas"]
        if not state:
            state.update(step=0, mean=torch.zeros_like(weight), square=torch.zeros_like(weight))
        state["step"] += 1
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        square = state["square"] / (1 - second ** state["step"])
        update = mean / (square.sqrt() + 1e-6)
        if weight.dim() > 1:
            update = update.add(weight, alpha=group["weight_decay"])
            norm, length = torch.linalg.vector_norm(weight), torch.linalg.vector_norm(update)
            ratio = torch.where((norm > 0) & (length > 0), norm / length, torch.ones_like(norm))
            update = update * ratio
        weight.sub_(update, alpha=group["lr"])
