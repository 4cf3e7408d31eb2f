"""``ScaleCurveCallback`` in a real ``fit`` that validates and saves after every epoch, on both backends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.integrations.real.cases import LEAST, measured, needs, printed, run, samples
from tests.worker.worker_ranks import records

pytestmark = [pytest.mark.processes, needs("keras")]
BACKENDS = [pytest.param(name, marks=needs(name)) for name in ("torch", "tensorflow")]


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_training_is_measured_and_ends_the_training(backend: str, tmp_path: Path) -> None:
    said = printed(run("keras", tmp_path, "stop", KERAS_BACKEND=backend))
    record, steps = measured(tmp_path)
    # One more batch passes until fit sees its flag.
    assert said == {"validations": 0, "first": None, "steps": steps + 1, "saved": False, "shadowed": []}
    assert samples(record, [4, 4, 4, 2])
    assert (record.finite_loss, record.parameters) == (True, 18)
    assert record.proof is not None
    assert record.proof.training is not None
    assert record.proof.training.initial != record.proof.training.final
    assert backend in record.versions


@needs("torch")
def test_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    run("keras", tmp_path, "nan", KERAS_BACKEND="torch")
    assert records(tmp_path, 1)[0].finite_loss is False


@needs("torch")
def test_a_step_has_all_batches_of_an_update(tmp_path: Path) -> None:
    said = printed(run("keras", tmp_path, "accumulate", KERAS_BACKEND="torch"))
    record, steps = measured(tmp_path)
    assert said["steps"] == 2 * steps + 1
    assert samples(record, [8, 6])


@needs("torch")
def test_training_continues_as_it_was(tmp_path: Path) -> None:
    said = printed(run("keras", tmp_path, "continues", KERAS_BACKEND="torch"))
    record, steps = measured(tmp_path)
    assert len(record.windows) == 2
    assert said["first"] >= steps
    assert (said["steps"], said["saved"], said["shadowed"]) == (80, True, [])


@needs("torch")
def test_a_training_of_too_few_steps_is_refused(tmp_path: Path) -> None:
    message = f"the training has 8 steps, and the measurement needs at least {LEAST}; use more epochs"
    assert message in run("keras", tmp_path, "few", fails=True, KERAS_BACKEND="torch").stderr


@needs("tensorflow")
def test_several_updates_in_one_call(tmp_path: Path) -> None:
    done = run("keras", tmp_path, "execution", fails=True, KERAS_BACKEND="tensorflow")
    assert "steps_per_execution=2; expected 1" in done.stderr


def test_another_backend(tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="JAX is not installed: a backend that is refused")
    assert "expected 'torch', 'tensorflow'" in run("keras", tmp_path, "stop", fails=True, KERAS_BACKEND="jax").stderr
