"""Two operators over one namespace: one works and the other says why it does not, and no trial is run twice."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from tests.cluster.applied import Applied, manifest
from tests.cluster.creations import Creations
from tests.cluster.kills import check
from tests.cluster.operator_process import OperatorProcess, service_account
from tests.cluster.proxy import Between, Call, Fault, Proxy
from tests.waiting import eventually
from tools.devcluster.tier import Tier


@contextlib.contextmanager
def starting(operator: OperatorProcess) -> Iterator[OperatorProcess]:
    """It runs, and need not become ready."""
    operator.start()
    try:
        yield operator
    except BaseException as error:
        error.add_note(operator.last_lines(60))
        raise
    finally:
        operator.close()


def test_the_second_stands_by_and_takes_over(tier: Tier, namespace: str) -> None:
    account = service_account(tier, namespace)
    waiting = f"standing by: the lease {namespace}/scalecurve-operator is held by one"
    with (
        Creations(tier, namespace) as created,
        OperatorProcess(tier, namespace, account, identity="one") as one,
        starting(OperatorProcess(tier, namespace, account, identity="two")) as two,
    ):
        eventually(lambda: two.probe() == (503, waiting), f"/readyz to say {waiting!r}")
        assert two.probe("/healthz") == (200, "ok")
        applied = Applied.apply(tier, manifest(namespace, workers=(1, 2), repetitions=3, seconds=1))
        eventually(lambda: applied.status.get("done", 0) >= 2, "two trials")
        assert "started" not in two.output()
        assert two.output().count(waiting) == 1
        one.kill()
        assert applied.final()["phase"] == "Succeeded"
        eventually(lambda: two.probe() == (200, "ok"), "the second to lead")
        assert "started" in two.output()
        check(applied, created, 6, {f"-weak-2-2x1-r{index}-a1" for index in (1, 2, 3)})


def test_the_second_takes_over_at_once_from_one_that_ends_well(tier: Tier, namespace: str) -> None:
    account, patient = service_account(tier, namespace), {"LEASE_SECONDS": "3600"}
    with (
        OperatorProcess(tier, namespace, account, identity="one", settings=patient) as one,
        starting(OperatorProcess(tier, namespace, account, identity="two", settings=patient)) as two,
    ):
        eventually(lambda: "is held by one" in two.probe()[1], "the second to stand by")
        assert one.stop() == 0
        two.ready()


def test_different_leases_by_mistake(tier: Tier, namespace: str) -> None:
    """Nothing tells them of one another, but every step is claimed against the version that was seen."""
    accounts = [service_account(tier, namespace, f"scalecurve-{name}") for name in ("a", "b")]
    one, two = (
        OperatorProcess(tier, namespace, account, settings={"LEASE_NAME": f"scalecurve-{name}-operator"})
        for account, name in zip(accounts, "ab", strict=True)
    )
    with Creations(tier, namespace) as created, one, two:
        applied = Applied.apply(tier, manifest(namespace, workers=(1, 2, 3), repetitions=4))
        assert applied.final()["phase"] == "Succeeded"
        services = {f"-weak-{n}-{n}x1-r{index}-a1" for n in (2, 3) for index in (1, 2, 3, 4)}
        check(applied, created, 12, services, spare_records=True)
        assert one.alive
        assert two.alive


def test_one_that_was_frozen_between_claim_and_creation_creates_nothing(tier: Tier, namespace: str) -> None:
    """The API server cannot know that the creation comes too late, for the job that it names was removed long ago."""
    account = service_account(tier, namespace)
    with (
        Creations(tier, namespace) as created,
        Proxy(tier, account) as proxy,
        OperatorProcess(tier, namespace, proxy.kubeconfig, identity="one") as one,
    ):
        frozen: list[Call] = []

        def freeze(call: Call) -> Fault | None:
            if frozen or not call.kind.endswith("scalingtrials/status Starting"):
                return None
            frozen.append(call)
            return Between(lambda: os.killpg(one.pid, signal.SIGSTOP))

        proxy.fault = freeze
        applied = Applied.apply(tier, manifest(namespace, workers=(1, 2)))
        eventually(lambda: bool(frozen), "the claim of the first")
        with OperatorProcess(tier, namespace, account, identity="two"):
            assert applied.final()["phase"] == "Succeeded"
            applied.gone()
            os.killpg(one.pid, signal.SIGCONT)
            assert one.ended() == 1
            check(applied, created, 2, {"-weak-2-2x1-r1-a1"})
        assert "taken by another operator" in one.output() or "could not be renewed" in one.output()
