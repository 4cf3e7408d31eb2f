from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scalecurve_api.crds.status import (
    MAX_CURRENT,
    MAX_HEADLINES,
    Condition,
    CurrentTrial,
    ExperimentStatus,
    Headline,
    TrialStatus,
    one_line,
)

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


@given(st.text(), st.integers(8, 200))
def test_one_line_is_one_short_line(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line.encode()) <= most
    assert line.isprintable()
    assert one_line(line, most) == line


def test_short_text_is_kept() -> None:
    assert one_line("rank 3 failed:\n  out of memory", 80) == "rank 3 failed: out of memory"
    assert one_line("ü" * 50, 11) == "üüüü..."


def test_long_messages_and_lists_are_cut_where_they_are_made() -> None:
    current = CurrentTrial(name="a", point="b", workers=1, phase="Running")
    headline = Headline(series="weak", mode="weak", workers=4, efficiency="91.2 %")
    status = ExperimentStatus(message="x" * 10_000, current=[current] * 1000, headlines=[headline] * 1000)
    assert len(status.message or "") == 512
    assert len(status.current) == MAX_CURRENT
    assert len(status.headlines) == MAX_HEADLINES


def test_a_status_is_written_as_kubernetes_reads_it() -> None:
    condition = Condition(
        type="Complete", status="True", last_transition_time=NOW, reason="AllDone", message="12 of 12"
    )
    wire = TrialStatus(phase="Invalid", reason="Throttled", started_at=NOW, conditions=[condition]).wire()
    assert wire["startedAt"] == "2026-11-20T10:00:00Z"
    assert wire["phase"] == "Invalid"
    assert wire["conditions"][0]["lastTransitionTime"] == "2026-11-20T10:00:00Z"
    assert "endedAt" not in wire


@pytest.mark.parametrize("reason", ["", "two words", "9lives", "x" * 65])
def test_a_condition_needs_a_reason_of_one_word(reason: str) -> None:
    with pytest.raises(ValidationError, match="reason"):
        Condition(type="Complete", status="True", last_transition_time=NOW, reason=reason, message="")


def test_times_carry_their_zone() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        TrialStatus(started_at=datetime(2026, 11, 20))
