from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve_api.contract import failure_file, journal_file, rank_file
from scalecurve_api.record.journal import StepRow, read_rank
from scalecurve_worker.record.recorder import Recorder
from tests.step_journal import read_rows


def test_rows_are_in_the_file_as_soon_as_appended(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "out", 2)
    rows = [StepRow(step, -1, 100 * step, 90, 4, 0.5) for step in range(3)]
    recorder.append(rows)
    path = tmp_path / "out" / journal_file(2)
    assert read_rank(path.read_bytes(), "journal") == 2
    assert list(read_rows(path)) == rows
    recorder.close()


def test_a_recorder_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Recorder(None, 0).append([StepRow(0, 0, 0, 0, 0, 0.0)])
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_record_is_not_taken_for_this_one(tmp_path: Path) -> None:
    for name in (rank_file(0), failure_file(0)):
        (tmp_path / name).write_text("old")
    (tmp_path / rank_file(1)).write_text("another rank's")
    Recorder(tmp_path, 0).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [journal_file(0), rank_file(1)]
