"""kill -9 of the operator at every kind of API call that it makes, before and after the server has acted."""

from __future__ import annotations

import pytest
from applied import manifest
from kills import Sweep, endure
from operator_process import OperatorProcess
from proxy import Proxy
from tier import Tier


@pytest.mark.timeout(900)
def test_killed_at_every_kind_of_call(tier: Tier, namespace: str) -> None:
    sweep = Sweep()

    def disturb(proxy: Proxy, operator: OperatorProcess) -> None:
        sweep.victim = lambda: operator.pid
        proxy.fault = sweep

    endured = endure(tier, manifest(namespace, workers=(1, 2, 3), repetitions=4), disturb)
    print(f"{len(sweep.killed)} kills, {endured.starts} starts, {len(endured.calls)} calls, {endured.seconds:.0f} s")
    print(*sweep.killed, sep="\n")
