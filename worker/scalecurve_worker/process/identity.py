"""This process's rank, from the variables of torchrun, Open MPI or MPICH, or plain ones."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

# Rank, world size, local rank. Slurm's are left out: a batch script has them too, though it is no rank.
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
    for names in _LAUNCHERS:
        rank, world, local = (_number(environment.get(name, "")) for name in names)
        if rank is not None and world is not None:
            return RankIdentity(rank, world, rank if local is None else local)
    return RankIdentity(0, 1, 0)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
