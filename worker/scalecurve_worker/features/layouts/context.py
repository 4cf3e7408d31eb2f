"""Context parallelism: every worker has its part of each sequence, and gathers keys and values for its attention.

As in the Llama 3 herd, arXiv:2407.21783, section 3.3.2: an all-gather of keys and values, and a reduce-scatter of their
gradients. The parts are consecutive, and each computes its attention against the full sequence under a mask.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from scalecurve_worker.features.layouts.stages import TransformerStage
from scalecurve_worker.torch.data import Batch


def share_sequences(stage: TransformerStage, mesh: DeviceMesh) -> None:
    """Let a stage's attention see the full sequence, of which each worker of the mesh has its part."""
    for block in stage.blocks.values():
        setattr(block, "attend", partial(attend, mesh=mesh, begin=stage.begin))  # noqa: B010 - typed as a module


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mesh: DeviceMesh,
    begin: int,
    is_causal: bool = True,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute causal attention of queries from position ``begin`` on; all are (batch, heads, part of length, width)."""
    key, value = (_whole(each, mesh) for each in (key, value))
    own = torch.arange(begin, begin + query.shape[2], device=query.device)
    seen = own[:, None] >= torch.arange(key.shape[2], device=query.device)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=dropout_p, enable_gqa=enable_gqa)


def own_part(batch: Batch, index: int, parts: int) -> Batch:
    """Return this worker's part of the sequences of a batch (batch, length), and of their targets."""
    if parts == 1:
        return batch
    inputs, targets = batch
    return inputs.chunk(parts, dim=1)[index].contiguous(), targets.chunk(parts, dim=1)[index].contiguous()


def _whole(part: Tensor, mesh: DeviceMesh) -> Tensor:
    parts = DTensor.from_local(part, mesh, [Shard(2)], run_check=False)
    whole = parts.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    return whole.contiguous()
