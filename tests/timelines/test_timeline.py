"""Experiments over time: sessions in order, each trial once, changes with what coincides with them."""

import shutil
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack
from scalecurve.bundle.problem import BundleError
from scalecurve_timelines.tables import changes_table, groups_table, points_table, sessions_table
from scalecurve_timelines.timeline import History, history
from tests.timelines.past import write_past

SESSIONS, AT = 14, 8


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen weeks; from the ninth on, with another torch, two workers are 4 % slower."""
    folder = tmp_path_factory.mktemp("past")
    write_past(
        folder,
        SESSIONS,
        factor=lambda session, workers: 0.96 if session >= AT and workers == 2 else 1.0,
        versions=lambda session: {"torch": "2.14.1" if session < AT else "2.15.0"},
        machine=lambda session: f"node-{session % 2}",
        session_sd=0.002,
    )
    return folder


@pytest.fixture(scope="module")
def known(past: Path) -> History:
    return history([past])


def test_a_change_is_found_where_it_is_and_with_what_changed(known: History):
    (timeline,) = known.timelines
    ((curve, change),) = timeline.changes
    assert (curve.workers, change.at) == (2, AT)
    assert change.first <= AT <= change.last
    assert change.ratio.value == pytest.approx(0.96, rel=0.01)
    assert change.ratio.high < 1
    assert change.coincides == (("version of torch", "2.14.1", "2.15.0"),)
    assert curve.current.value == pytest.approx(0.96 * 1280, rel=0.01)
    assert [c.sessions for c in timeline.curves] == [SESSIONS, SESSIONS]


def test_tables_say_what_changed(known: History):
    table = points_table(known)
    assert [row[:3] for row in table.compact().rows] == [("weak", 1, SESSIONS), ("weak", 2, SESSIONS)]
    assert table.spelled()[0][-2] == "none"
    (changed,) = changes_table(known).spelled()
    assert changed[-1] == "torch 2.14.1 → 2.15.0"
    assert "-4" in changed[5] or "-3" in changed[5]
    sessions = sessions_table(known.timelines[0])
    assert len(sessions.rows) == SESSIONS
    assert [row[-3] for row in sessions.rows if row[-3]] == ["weak at 2"]


def test_sessions_group_by_version_and_machine(known: History):
    by_torch = {(row[2], row[3]): row for row in groups_table(known, "torch").rows}
    assert by_torch[2, "2.14.1"][4] == AT
    assert by_torch[2, "2.15.0"][-1].value == pytest.approx(0.96, rel=0.01)
    assert {row[3] for row in groups_table(known, "machine").rows} == {"node-0", "node-1"}
    with pytest.raises(ValueError, match=r"nothing was recorded as 'phase of the moon'; expected session, .*machine"):
        groups_table(known, "phase of the moon")


def test_efficiency_is_relative_to_the_same_session(past: Path):
    (timeline,) = history([past], "efficiency").timelines
    (curve,) = timeline.curves
    assert curve.workers == 2
    assert [change.at for change in curve.changes] == [AT]
    assert curve.values[0].value == pytest.approx(1.0, rel=0.01)


def test_a_copy_is_no_further_session(past: Path, tmp_path: Path):
    """A packed bundle beside its folder, and a copy, would halve the spread between sessions."""
    bundles = sorted(past.iterdir())[:3]
    for bundle in bundles:
        shutil.copytree(bundle, tmp_path / bundle.name)
    pack(bundles[0], tmp_path / "packed.zip")
    shutil.copytree(bundles[1], tmp_path / "copy")
    shutil.rmtree(next((tmp_path / "copy" / "trials").iterdir()))
    found = history([tmp_path])
    assert len(found.timelines[0].sessions) == 3
    assert {note.partition(":")[0] for note in found.notes} == {"copy", "packed.zip"}
    assert "each trial is taken once" in found.notes[0]


def test_few_sessions_say_so(past: Path):
    found = history(sorted(past.iterdir())[:2])
    table = points_table(found)
    assert "Fewer than 9 sessions" in table.notes[1]
    assert {row[-2] for row in table.rows} == {None}


def test_what_was_not_measured_at_a_point_is_a_gap(past: Path, tmp_path: Path):
    copied = [Path(shutil.copytree(bundle, tmp_path / bundle.name)) for bundle in sorted(past.iterdir())[:3]]
    for trial in open_bundle(copied[1]).trials:
        if trial.spec.point.workers == 2:
            shutil.rmtree(trial.folder)
    (timeline,) = history([tmp_path]).timelines
    assert [value is None for value in timeline.curves[1].values] == [False, True, False]


def test_bad_input_names_what_is_wrong(past: Path, tmp_path: Path):
    with pytest.raises(BundleError, match="nowhere: no such folder"):
        history([tmp_path / "nowhere"])
    with pytest.raises(BundleError, match="no bundle found"):
        history([tmp_path])
    with pytest.raises(ValueError, match="no bundle of weekly; experiments found: nightly"):
        history([past], experiments=["weekly"])
    with pytest.raises(ValueError, match="unknown metric 'speed'; expected throughput, efficiency"):
        history([past], "speed")  # type: ignore[arg-type]
