"""What parameter servers counted, and what was sent to them."""

from collections.abc import Sequence

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import Combination, FactKind, Recorded


class ServerCounts(Model):
    """What one parameter server counted over its life, warm-up included."""

    server: Int64
    parameters: Int64 = Field(description="elements it holds")
    updates: Int64 = Field(description="changes of its parameters")
    gradients: Int64 = Field(description="gradients that came in")
    dropped: Int64 = Field(default=0, description="of these, too late and thrown away")
    received_bytes: Int64
    sent_bytes: Int64
    staleness: dict[Text, Int64] = Field(default={}, description="updates between fetch and use -> gradients")


SERVERS: FactKind[Sequence[ServerCounts]] = FactKind("servers", list[ServerCounts], ())


def _sent(kind: FactKind[int | None], record: Recorded, rank: int) -> int | None:
    """What every rank sent is not kept: servers must still agree with one another."""
    servers = SERVERS.of(record)
    return None if rank or not servers else servers[0].gradients


PUSHES: FactKind[int | None] = FactKind("pushes", Int64, None, Combination(lambda values: None, _sent, kept=False))
"""Gradients that a rank sent to every parameter server."""
