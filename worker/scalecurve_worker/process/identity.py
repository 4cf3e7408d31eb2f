"""This process's rank, from the variables of torchrun, Open MPI or MPICH, or plain ones."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

# Rank, world size, local rank. Slurm's are ignored: a batch script has them too, though it is no rank.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
MPI_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


@dataclass(frozen=True)
class RankIdentity:
    """Rank, world size and rank within the node, by the environment; 0 of 1 when no launcher set them."""

    rank: int
    world: int
    local_rank: int


def identify(environment: Mapping[str, str] = os.environ) -> RankIdentity:
    """Read the launcher's variables; the first launcher that set rank and world wins."""
    for rank_name, world_name, local_name in _LAUNCHERS:
        rank, world = environment.get(rank_name, ""), environment.get(world_name, "")
        if rank.isdigit() and world.isdigit():
            local = environment.get(local_name, "")
            return RankIdentity(int(rank), int(world), int(local if local.isdigit() else rank))
    return RankIdentity(0, 1, 0)
