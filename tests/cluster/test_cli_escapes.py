"""What a cluster says reaches a terminal as text: nothing in a status colors, moves or renames it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.spec.trial import FailedReason
from tests.cluster.cli_desk import Desk
from tests.cluster.kept import Kept, keep
from tests.cluster.test_cli_records import on_a_terminal
from tools.devcluster.rest import MERGE
from tools.devcluster.tier import Tier

HOSTILE = "\x1b]0;pwned\x07\x1b[31mred\x9b2J\u202egnp.exe\r\n\x08\x7fend"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]")
TIME = "2026-01-01T00:00:00Z"


@pytest.fixture
def desk(tier: Tier, namespace: str, tmp_path: Path) -> Desk:
    return Desk(tier, tmp_path, namespace)


@pytest.fixture
def kept(tier: Tier, namespace: str) -> Kept:
    """An experiment that has failed, with every text of its status hostile."""
    kept = keep(tier, namespace, "seeded")
    name = "weak-1-1x1-r1"
    kept.end(name, failure=FailedReason.rank_failed)
    text: dict[str, Any] = {"reason": HOSTILE, "message": HOSTILE}
    tier.rest.call("PATCH", kept.path("scalingtrials", f"seeded-{name}", "status"), {"status": text}, kind=MERGE)
    kept.report(
        phase="Failed",
        message=HOSTILE,
        total=4,
        done=1,
        bestEfficiency=HOSTILE[:64],
        progress=HOSTILE,
        headlines=[
            {"series": HOSTILE, "mode": "weak", "workers": 2}
            | dict.fromkeys(("efficiency", "throughput", "speedUp"), HOSTILE)
        ],
        current=[{"name": "seeded-1", "point": HOSTILE, "workers": 1, "phase": "Running", "since": TIME}],
        conditions=[
            {"type": kind, "status": status, "reason": "Lost", "message": HOSTILE, "lastTransitionTime": TIME}
            for kind, status in (("Stalled", "True"), ("Ready", "Unknown"))
        ],
    )
    return kept


@pytest.mark.parametrize(
    "words",
    [
        ("status", "seeded"),
        ("status", "seeded", "-o", "csv"),
        ("status", "seeded", "-o", "md"),
        ("status", "seeded", "-o", "json"),
        ("pull", "seeded"),
        ("watch", "seeded"),
    ],
    ids=" ".join,
)
def test_no_control_character_of_a_status_is_printed(desk: Desk, kept: Kept, words: tuple[str, ...]) -> None:
    ran = desk(*words, code=1 if words[0] == "watch" else 0)
    assert not CONTROL.search(ran.out + ran.err), repr(ran.out + ran.err)
    if "csv" not in words:
        assert "x1b]0;pwned" in ran.out.replace("\\]", "]"), ran.out


def test_a_live_table_shows_no_control_character_of_a_status(desk: Desk, kept: Kept) -> None:
    kept.report(phase="Running")
    code, seen = on_a_terminal(
        desk, "watch", "seeded", "--every", "0.1", once=("Stalled", lambda: kept.report(phase="Failed"))
    )
    assert code == 1
    assert "pwned" in seen
    for hostile in ("\x1b]0;", "\x07", "\x1b[31m", "\x9b", "\u202e", "\x08", "\x7f"):
        assert hostile not in seen
