"""Expert parallelism: every worker holds some of a layer's experts, and gets the tokens of all workers that are theirs.

GShard, D. Lepikhin et al., arXiv:2006.16668: an all-to-all before the experts and one after them. With balanced experts
every worker sends each other equally much.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import DeviceMesh

from scalecurve_worker.features.layouts.stages import TransformerStage
from scalecurve_worker.torch.models.mixture import Experts, MixtureOfExperts

OWN = ".mixture.experts."
"""In the name of a parameter that a worker has its experts' part of."""


def spread(stage: TransformerStage, mesh: DeviceMesh) -> None:
    """Keep this worker's experts of a stage's blocks, in place, and send slots to those who hold the others."""
    for module in stage.modules():
        if isinstance(module, MixtureOfExperts):
            _keep(module.experts, mesh)
            module.dispatch, module.combine = partial(_dispatch_slots, mesh=mesh), partial(_combine_slots, mesh=mesh)


def experts_of(stage: nn.Module) -> list[Experts]:
    """Return the experts of a stage's blocks."""
    return [module for module in stage.modules() if isinstance(module, Experts)]


def _keep(experts: Experts, mesh: DeviceMesh) -> None:
    for name, parameter in list(experts.named_parameters()):
        own = parameter.detach().chunk(mesh.size())[mesh.get_local_rank()]
        setattr(experts, name, nn.Parameter(own.clone()))


def _dispatch_slots(slots: Tensor, *, mesh: DeviceMesh) -> Tensor:
    """(experts, slots, width) of this worker's tokens into (own experts, slots of all workers, width)."""
    received = _exchange(slots, mesh)
    return received.view(mesh.size(), -1, *received.shape[1:]).transpose(0, 1).flatten(1, 2)


def _combine_slots(slots: Tensor, *, mesh: DeviceMesh) -> Tensor:
    """The way back: :func:`_dispatch_slots` undone."""
    own, all_slots, width = slots.shape
    back = slots.view(own, mesh.size(), all_slots // mesh.size(), width)
    return _exchange(back.transpose(0, 1).flatten(0, 1), mesh)


def _exchange(slots: Tensor, mesh: DeviceMesh) -> Tensor:
    """Equal parts of the first dimension, each to its worker of the mesh."""
    received: Tensor = all_to_all_single_autograd(slots.contiguous(), None, None, mesh)
    return torch.ops._c10d_functional.wait_tensor(received)  # type: ignore[no-any-return]
