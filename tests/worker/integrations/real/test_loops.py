"""``measure`` with real Accelerate and DeepSpeed loops that accumulate gradients over three batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.integrations.real.cases import measured, needs, printed, run, samples

pytestmark = [pytest.mark.processes, needs("torch")]
ONE_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}  # without a launcher DeepSpeed begins MPI


@needs("accelerate")
def test_accelerate_updates_at_the_end_of_an_epoch_too(tmp_path: Path) -> None:
    said = printed(run("accelerate", tmp_path, "stop"))
    record, steps = measured(tmp_path)
    # An epoch has 7 batches of 2: two updates of three batches, and one of one.
    assert said == {"epochs": [sum([3, 3, 1][step % 3] for step in range(steps)), 0, 0], "length": 7}
    assert samples(record, [6, 6, 2])
    assert record.finite_loss


@needs("deepspeed")
def test_deepspeed_updates_after_three_batches(tmp_path: Path) -> None:
    said = printed(run("deepspeed", tmp_path, "stop", **ONE_RANK))
    record, steps = measured(tmp_path)
    assert said == {"epochs": [steps * 3, 0, 0], "updates": steps}
    assert samples(record, [6])
    assert record.strategy == "DeepSpeedEngine, ZeRO-2"


@needs("accelerate")
def test_accelerate_with_something_else(tmp_path: Path) -> None:
    said = run("accelerate", tmp_path, "mistakes").stdout
    assert "expected an accelerate.Accelerator, got Linear" in said
    assert "0 models are prepared; call it after accelerator.prepare()" in said


@needs("deepspeed")
def test_deepspeed_with_something_else(tmp_path: Path) -> None:
    said = run("deepspeed", tmp_path, "mistakes").stdout
    assert "expected the DeepSpeedEngine of deepspeed.initialize, got Linear" in said
