"""A mixture of experts in place of a block's feed-forward layer, with forced balance.

N. Shazeer et al., arXiv:1701.06538; Mixtral, A. Jiang et al., arXiv:2401.04088; OLMoE, N. Muennighoff et al.,
arXiv:2409.02060. Token t goes to experts t*k, t*k+1, ... modulo their number, whatever the router says: every expert
has equally much to do in every step, so that a speed does not depend on how well a router has learnt to balance. The
router is computed and trained all the same, as its weights scale what the experts give (torchtitan's
``debug.moe_force_load_balance`` does so).
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Experts(nn.Module):
    """SwiGLU layers of some experts: (experts, slots, width) in and out."""

    def __init__(self, experts: int, width: int, feed_forward: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.empty(experts, width, feed_forward))
        self.up = nn.Parameter(torch.empty(experts, width, feed_forward))
        self.down = nn.Parameter(torch.empty(experts, feed_forward, width))

    def forward(self, slots: Tensor) -> Tensor:
        return torch.bmm(F.silu(torch.bmm(slots, self.gate)) * torch.bmm(slots, self.up), self.down)


class MixtureOfExperts(nn.Module):
    """``active`` of ``count`` experts for each token; (batch, length, width) in and out.

    ``length * active`` must be a multiple of ``count``. ``dispatch`` and ``combine`` bring slots to the workers that
    hold their experts and back; by default this process holds all of them.
    """

    def __init__(self, width: int, feed_forward: int, count: int, active: int) -> None:
        super().__init__()
        self.count, self.active = count, active
        self.router = nn.Linear(width, count, bias=False)
        self.experts = Experts(count, width, feed_forward)
        self.dispatch: Callable[[Tensor], Tensor] = _identity
        self.combine: Callable[[Tensor], Tensor] = _identity

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        chosen = torch.arange(length * self.active, device=x.device).view(1, length, self.active) % self.count
        scores = self.router(x).float().softmax(dim=-1).gather(-1, chosen.expand(batch, -1, -1))
        weights = scores / scores.sum(dim=-1, keepdim=True)
        # Slot s of a sequence is of expert s modulo count: to sort slots by expert is to turn axes.
        slots = x.repeat_interleave(self.active, dim=1).view(batch, -1, self.count, width)
        slots = slots.permute(2, 0, 1, 3).flatten(1, 2)
        mixed = self.combine(self.experts(self.dispatch(slots)))
        mixed = mixed.view(self.count, batch, -1, width).permute(1, 2, 0, 3).reshape(batch, length, self.active, width)
        out: Tensor = (mixed * weights.unsqueeze(-1).to(mixed.dtype)).sum(dim=2)
        return out


def _identity(slots: Tensor) -> Tensor:
    return slots
