"""Frames of a bundle: the documented columns and dtypes, the numbers of the records."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

import scalecurve
from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import FileError
from scalecurve.curves.frames import POINTS, STEPS, TRIALS, FrameColumn, Frames

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "analysis/scalecurve/cli/demo.zip"
WITH_AXES = ROOT / "docs/evidence/training/cross-device-ops.zip"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return scalecurve.open_bundle(DEMO)


@pytest.fixture(scope="module")
def frames(bundle: Bundle) -> Frames:
    return scalecurve.frame(bundle)


@pytest.mark.parametrize(("name", "columns"), [("points", POINTS), ("trials", TRIALS), ("steps", STEPS)])
def test_columns_and_dtypes_are_those_of_the_page(frames: Frames, name: str, columns: Sequence[FrameColumn]) -> None:
    frame: pd.DataFrame = getattr(frames, name)
    assert {str(column): str(dtype) for column, dtype in frame.dtypes.items()} == {c.name: c.dtype for c in columns}
    assert len(frame) > 0


def test_points_are_those_of_the_scaling_table(bundle: Bundle, frames: Frames) -> None:
    table = scalecurve.scaling([bundle]).table().frame()
    for name in ("speedup", "efficiency_low", "efficiency_high", "throughput"):
        pd.testing.assert_series_equal(frames.points[name], table[name])


def test_a_group_of_trials_gives_the_point(frames: Frames) -> None:
    """Throughput of a point is samples over time, and so within its trials."""
    ranges = frames.trials.groupby(["series", "workers"]).throughput.agg(["min", "max"])
    points = frames.points.set_index(["series", "workers"]).throughput
    assert ((ranges["min"] <= points) & (points <= ranges["max"])).all()


def test_steps_are_those_of_the_windows(bundle: Bundle, frames: Frames) -> None:
    counted = frames.steps.query("kind == 'train' and rank == 0").groupby("trial").step.count()
    windows = {
        trial.name: sum(window.steps for window in trial.record.windows if window.kind.value == "train")
        for trial in bundle.trials
        if trial.record
    }
    assert counted.to_dict() == windows


def test_axes_are_columns() -> None:
    trials = scalecurve.frame(scalecurve.open_bundle(WITH_AXES)).trials
    (axis,) = (name for name in trials if str(name).startswith("axis."))
    assert trials[axis].notna().all()
    assert trials[axis].nunique() > 1


def test_nothing_measured_gives_empty_frames(tmp_path: Path) -> None:
    (tmp_path / "trials").mkdir()
    frames = scalecurve.frame(scalecurve.open_bundle(tmp_path))
    for frame, columns in ((frames.points, POINTS), (frames.trials, TRIALS), (frames.steps, STEPS)):
        assert list(frame) == [column.name for column in columns]
        assert frame.empty


def test_a_changed_step_table_is_refused(tmp_path: Path) -> None:
    folder = scalecurve.unpack(DEMO, tmp_path / "demo")
    next((tmp_path / "demo").rglob("steps.parquet")).write_bytes(b"PAR1")
    with pytest.raises(FileError, match="changed or damaged"):
        _ = scalecurve.frame(scalecurve.open_bundle(folder)).steps
