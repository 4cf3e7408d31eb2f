"""The device meshes of a layout, over one numbering of the ranks."""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from scalecurve_api.programs.degrees import Degrees, Dimension

_CANONICAL = list(Dimension)


@dataclass(frozen=True)
class Meshes:
    """``dense`` has pipeline, copies, sharing and tensor: what parameters outside of experts are laid out over.

    ``copies`` holds equal parameters (replicate and expert), ``sharing`` shards them and averages gradients over
    samples and parts of sequences (shard and context). ``axes`` has every dimension by itself.
    """

    degrees: Degrees
    dense: DeviceMesh
    axes: DeviceMesh
    place: dict[Dimension, int]

    @property
    def data(self) -> DeviceMesh:
        """What FSDP lays parameters out over: copies by shards."""
        return self.dense["copies", "sharing"]

    @property
    def experts(self) -> DeviceMesh:
        """What FSDP lays the experts of a rank out over: replicas by shards."""
        return self.axes["replicate", "shard"]

    def group(self, dimension: Dimension) -> dist.ProcessGroup:
        return self.axes.get_group(dimension.value)

    def names(self) -> dict[str, str]:
        """Name of each process group -> the dimensions that it joins, as ``replicate`` or ``shard x context``."""
        joined = {"copies": (Dimension.replicate, Dimension.expert), "sharing": (Dimension.shard, Dimension.context)}
        sizes = self.degrees.sizes
        names: dict[str, str] = {}
        for name in self.dense.mesh_dim_names or ():
            parts = [each.value for each in joined.get(name, ()) if sizes[each] > 1]
            names[self.dense.get_group(name).group_name] = " x ".join(parts) or name
        for dimension in Dimension:
            names[self.group(dimension).group_name] = dimension.value
        return names


def make_meshes(degrees: Degrees, device: torch.device) -> Meshes:
    """Make the meshes over all ranks of the default group; collective."""
    sizes = degrees.sizes
    ranks = torch.arange(degrees.workers).reshape(list(sizes.values()))
    ranks = ranks.permute([list(sizes).index(dimension) for dimension in _CANONICAL])
    pipeline, replicate, expert, shard, context, tensor = ranks.shape
    dense = ranks.reshape(pipeline, replicate * expert, shard * context, tensor)
    return Meshes(
        degrees,
        DeviceMesh(device.type, dense, mesh_dim_names=("pipeline", "copies", "sharing", "tensor")),
        DeviceMesh(device.type, ranks, mesh_dim_names=tuple(each.value for each in _CANONICAL)),
        degrees.coordinates(dist.get_rank()),
    )
