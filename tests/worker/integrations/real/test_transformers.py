"""``ScaleCurveCallback`` in a real Trainer that evaluates and saves every five steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.integrations.real.cases import LEAST, measured, needs, printed, run, samples

pytestmark = [pytest.mark.processes, needs("transformers", "torch")]


def test_only_training_is_measured_and_ends_the_training(tmp_path: Path) -> None:
    said = printed(run("transformers", tmp_path, "stop"))
    record, steps = measured(tmp_path)
    # Once before the first step, as eval_on_start asks. The Trainer sees its flag after one more batch.
    assert said["steps"] - steps in (0, 1)
    assert said == {"evaluations": 1, "first": 0, "steps": said["steps"], "saved": 0, "wrapped": False}
    # An epoch has 13 batches of 2 sequences of 8: four updates of three batches, and one of one.
    assert samples(record, [48, 48, 48, 48, 16])
    assert (record.sample_unit, record.finite_loss) == ("tokens", True)


def test_training_continues_as_it_was(tmp_path: Path) -> None:
    said = printed(run("transformers", tmp_path, "continues"))
    record, steps = measured(tmp_path)
    assert len(record.windows) == 2
    assert (said["steps"], said["wrapped"]) == (60, False)
    assert said["first"] >= steps
    assert said["saved"] == 1


def test_a_training_of_too_few_steps_is_refused(tmp_path: Path) -> None:
    message = f"the training has 5 steps, and the measurement needs at least {LEAST}; use a larger max_steps"
    assert message in run("transformers", tmp_path, "few", fails=True).stderr
