"""Whether collectives went the way that the machine has or that was expected."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_api.record.transport import Transport
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialPhase
from tests.api.judged import TWO, of
from tests.api.rank_records import GOOD, ranks_of, trial


def seen(used: str, visible: str | None = None) -> Any:
    """The same way between both ranks."""

    def of_rank(rank: int) -> Transport:
        peer = str(1 - rank)
        return Transport(
            library="nccl",
            channels={kind: 2 for kind in used.split(", ")},
            peers={peer: used},
            visible={peer: visible} if visible else {},
        )

    return of_rank


def judged(way: Any, **changes: Any) -> Any:
    asked = trial(changes) if changes else TWO
    ranks = ranks_of(asked)
    if way is not None:
        ranks = {rank: record.model_copy(update={"transport": way(rank)}) for rank, record in ranks.items()}
    return judge(asked, ranks, GOOD)


@pytest.mark.parametrize(
    ("used", "visible", "passed"),
    [
        ("P2P", "P2P", True),
        ("P2P", None, True),
        ("SHM", "SHM", True),
        ("SHM", "P2P", False),
        ("NET/Socket", "SHM", False),
        ("NET/Socket", "NET/IB", False),
        ("NET/IB", "NET/IB", True),
        ("P2P, NET/Socket", "P2P", False),
        ("P2P, SHM", "SHM", True),
        ("NET/Socket", None, True),
        ("NET/Libfabric", "NET/IB", True),
    ],
)
def test_wrong_transport_is_slower_than_what_the_machine_has(used: str, visible: str | None, passed: bool) -> None:
    verdict = judged(seen(used, visible))
    assert of(verdict, "WrongTransport")[0] is passed
    assert verdict.reason == (None if passed else "WrongTransport")


def test_who_used_what_is_told() -> None:
    message = judged(seen("NET/Socket", "P2P")).message
    assert message == "a faster transport was not used: ranks 0-1 used NET/Socket and have P2P"


@pytest.mark.parametrize(
    ("used", "passed", "detail"),
    [
        ("NET/Socket", True, "used NET/Socket"),
        ("SHM", False, "used SHM, expected P2P, NET/Socket"),
        (None, None, "expected P2P, NET/Socket; no rank reported what it used"),
    ],
)
def test_an_expectation_replaces_what_the_machine_has(used: str | None, passed: bool | None, detail: str) -> None:
    way = seen(used, "P2P") if used else None
    verdict = judged(way, **{"expect": {"transport": ["P2P", "NET/Socket"]}})
    assert of(verdict, "WrongTransport") == (passed, detail)
    assert (verdict.phase is TrialPhase.invalid) is (passed is False)


def test_nothing_seen_and_nothing_expected_is_no_check() -> None:
    assert "WrongTransport" not in {check.name for check in judged(None).checks}
