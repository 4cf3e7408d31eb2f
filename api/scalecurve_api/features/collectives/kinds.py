"""The collectives that can be timed by themselves, with nccl-tests' conventions of bytes and bus bandwidth.

https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from enum import StrEnum


class Collective(StrEnum):
    """What ranks do together; send-recv is a ring in which every rank sends to the next one."""

    all_reduce = "all-reduce"
    all_gather = "all-gather"
    reduce_scatter = "reduce-scatter"
    all_to_all = "all-to-all"
    broadcast = "broadcast"
    send_recv = "send-recv"

    @property
    def in_place(self) -> bool:
        """Whether the result replaces what was sent."""
        return self in (Collective.all_reduce, Collective.broadcast)

    @property
    def shared_out(self) -> bool:
        """Whether a message has an equal share for, or of, every rank."""
        return self in (Collective.all_gather, Collective.reduce_scatter, Collective.all_to_all)

    def sent(self, count: int, world: int) -> int:
        """Count elements a rank puts in, of a message of ``count``: the larger of what goes in and what comes out."""
        return count // world if self is Collective.all_gather else count

    def received(self, count: int, world: int) -> int:
        """Count elements a rank gets out."""
        return count // world if self is Collective.reduce_scatter else count

    def bus_factor(self, world: int) -> float:
        """Return busbw / algbw: the message's share that crosses the slowest link, whatever the number of ranks."""
        if self is Collective.all_reduce:
            return 2 * (world - 1) / world
        return (world - 1) / world if self.shared_out else 1.0
