"""``ScaleCurveCallback`` in a real Lightning Trainer that validates, saves and may stop early."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.integrations.real.cases import measured, needs, printed, run, samples

pytestmark = [pytest.mark.processes, needs("lightning", "torch")]


def test_only_training_is_measured_and_ends_the_training(tmp_path: Path) -> None:
    said = printed(run("lightning", tmp_path, "stop"))
    record, steps = measured(tmp_path)
    assert (said["validations"], said["saved"]) == (0, 0)
    assert steps <= said["steps"] <= steps + 1  # one more batch passes until the Trainer sees its flag
    assert said["limits"] == [1.0, 1, 60]
    assert {"EarlyStopping", "ModelCheckpoint"} <= set(said["callbacks"])
    # An epoch has 7 batches of 2: two updates of three batches, and one of one.
    assert samples(record, [6, 6, 2])
    assert record.finite_loss


def test_training_continues_as_it_was(tmp_path: Path) -> None:
    said = printed(run("lightning", tmp_path, "continues"))
    record, steps = measured(tmp_path)
    assert len(record.windows) == 2
    assert said["first"] >= steps
    assert said["saved"] == 1
    assert said["steps"] == 60
    assert said["limits"] == [1.0, 200, 60]


def test_two_callbacks(tmp_path: Path) -> None:
    done = run("lightning", tmp_path, "twice", fails=True)
    assert "two ScaleCurve callbacks measure the same training; use one" in done.stderr
