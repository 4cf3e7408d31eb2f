"""Pace from a journal that is being written, and the time left."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_api.files import Within
from scalecurve_api.record.journal import StepRow, pack_row, write_header
from scalecurve_local.progress import Pace, estimate_remaining, pace_of, read_pace
from tests.local.devices.test_shares import plan


def row(step: int, at_s: float, window: int = 0) -> StepRow:
    return StepRow(step, window, int(at_s * 1e9), 1, 32, 0.0)


def test_rates_are_of_the_last_two_seconds_over_all_workers() -> None:
    slow, fast = [row(step, step * 1.0) for step in range(10)], [row(10 + step, 20 + step / 10) for step in range(21)]
    pace = pace_of([*slow, *fast], workers=4)
    assert pace is not None
    assert (pace.step, pace.window) == (30, 0)
    assert pace.steps_per_second == pytest.approx(10)
    assert pace.samples_per_second == pytest.approx(4 * 32 * 10)


def test_one_step_has_no_rate() -> None:
    assert pace_of([row(0, 5.0, -1)], 2) == Pace(0, -1)
    assert pace_of([], 2) is None


def test_a_journal_is_read_while_it_is_written(tmp_path: Path) -> None:
    assert read_pace(Within(tmp_path), 1) is None
    path = tmp_path / "rank-0.steps"
    path.write_bytes(b"SBST")
    assert read_pace(Within(tmp_path), 1) is None
    with path.open("wb") as file:
        write_header(file, 0)
        for step in range(1000):
            file.write(pack_row(row(step, step / 100)))
        file.write(b"torn")
    pace = read_pace(Within(tmp_path), 1)
    assert pace is not None
    assert (pace.step, round(pace.steps_per_second or 0)) == (999, 100)
    path.write_bytes(b"x" * 64)
    assert read_pace(Within(tmp_path), 1) is None


def test_time_left_is_by_point_where_the_point_was_seen() -> None:
    trials = plan([1, 2], measure={"repetitions": 2})
    one = [trial.name for trial in trials if trial.point.workers == 1]
    two = [trial.name for trial in trials if trial.point.workers == 2]
    assert estimate_remaining(trials, {}, {}, 0) is None
    assert estimate_remaining(trials, {one[0]: 10}, {one[0]}, 0) == 30
    assert estimate_remaining(trials, {one[0]: 10, two[0]: 4}, {one[0], two[0]}, 0) == 14
    assert estimate_remaining(trials, {one[0]: 10, two[0]: 4}, {one[0], two[0]}, 3) == 11
    assert estimate_remaining(trials, {one[0]: 1}, set(one + two), 3) == 0
