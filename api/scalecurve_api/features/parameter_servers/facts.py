"""What parameter servers counted, and what was sent to them."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import Combination, FactKind, Recorded
from scalecurve_api.spec.trial import TrialSpec


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


def _apart(trial: TrialSpec, ranks: Sequence[Any]) -> str | None:
    """Every gradient that a rank sent must have reached every server, and their shards make up the model."""
    options = trial.workload.parameter_servers
    if options is None:
        return None
    servers = SERVERS.of(ranks[0])
    if len(servers) != options.servers:
        return f"{len(servers)} parameter servers reported counts, expected {options.servers}"
    sent = sum(PUSHES.of(record) or 0 for record in ranks)
    for server in servers:
        if server.gradients != sent:
            return f"parameter server {server.server} took {server.gradients} gradients, but the workers sent {sent}"
    held = sum(server.parameters for server in servers)
    return None if held == ranks[0].parameters else f"servers hold {held} of {ranks[0].parameters} parameters"


SERVERS: FactKind[Sequence[ServerCounts]] = FactKind("servers", list[ServerCounts], (), apart=_apart)


def _server_pushes(kind: FactKind[int | None], record: Recorded, rank: int) -> int | None:
    """What every rank sent is not kept: servers must still agree with one another."""
    servers = SERVERS.of(record)
    return None if rank or not servers else servers[0].gradients


PUSHES: FactKind[int | None] = FactKind(
    "pushes", Int64, None, Combination(lambda values: None, _server_pushes, kept=False)
)
"""Gradients that a rank sent to every parameter server."""
