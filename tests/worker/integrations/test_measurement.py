"""What all integrations share, without any framework."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, rank_file
from scalecurve_api.record.rank import RankRecord
from scalecurve_worker.integrations import libraries
from scalecurve_worker.integrations.libraries import LibraryError, library
from scalecurve_worker.integrations.loaders import MeasuredLoader
from scalecurve_worker.integrations.measurement import Measurement, Then, caller, local_of_caller
from scalecurve_worker.process.failure import WorkloadError
from tests.waiting import PATIENCE_S
from tests.worker.worker_ranks import make_trial

LIBRARIES = {
    "transformers",
    "lightning",
    "pytorch_lightning",
    "accelerate",
    "keras",
    "deepspeed",
    "torch",
    "tensorflow",
}
STEPS = 2 + 2 * (1 + 3)
"""Of the trial below: warm-up, and two windows with the step before each."""


@pytest.fixture(autouse=True)
def first_of_its_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Measurement, "_latest", None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    yield
    if Measurement._latest is not None and Measurement._latest._bench is not None:
        Measurement._latest.bench.session.recorder.close()


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "trial.json"
    path.write_text(make_trial().model_dump_json(by_alias=True))
    monkeypatch.setenv(TRIAL_ENV, str(path))
    monkeypatch.setenv(OUT_ENV, str(tmp_path / "out"))
    return tmp_path / "out"


def record(out: Path) -> RankRecord:
    return RankRecord.model_validate_json((out / rank_file(0)).read_text())


def loader(batches: Any, then: Then | None = None, every: int = 1) -> MeasuredLoader:
    """A loader whose script updates its parameters after every so many batches."""
    seen = 0

    def updated() -> bool:
        nonlocal seen
        seen += 1
        return seen % every == 0

    return MeasuredLoader(batches, Measurement("samples", then), lambda: None, updated)


def test_no_framework_is_loaded_before_its_integration() -> None:
    code = "import sys, scalecurve_worker, scalecurve_worker.integrations; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & LIBRARIES == set()


def test_a_trial_ends_the_process_after_its_last_window(out: Path) -> None:
    batches: list[int] = []
    with pytest.raises(SystemExit) as left:
        batches.extend(map(len, loader([[1, 2, 3], [4, 5]])))
    assert left.value.code == 0
    assert [window.samples for window in record(out).windows] == [2 + 3 + 2, 2 + 3 + 2]


def test_a_step_has_all_batches_of_an_update(out: Path) -> None:
    measured = loader([[1, 2, 3], [4, 5], [6]], every=3)
    with pytest.raises(SystemExit):
        list(map(lambda batch: measured.loss(len(batch)), measured))
    assert [(w.steps, w.samples) for w in record(out).windows] == [(3, 18), (3, 18)]
    assert record(out).last_loss == 6


def test_a_script_that_goes_on_gets_no_batch_any_more(out: Path) -> None:
    measured = loader([[0]] * 7, then="stop")
    epochs = [len(list(measured)) for _ in range(3)]
    assert epochs == [STEPS, 0, 0]
    assert len(record(out).windows) == 2


def test_without_a_trial_the_training_continues_and_a_summary_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    measured = loader([[0]] * 50)
    epochs = [len(list(measured)) for _ in range(3)]
    assert epochs[0] % 50 == 0
    assert epochs[0] >= 20 + 5 * 51
    assert epochs[1:] == [50, 50]
    assert "scalecurve: 1 worker, 5 windows of 50 steps: " in capsys.readouterr().out
    assert len(measured) == 50
    assert measured.index([0]) == 0  # anything else is the loader's


def test_a_loader_that_cannot_be_repeated(out: Path) -> None:
    def once() -> Iterator[list[int]]:
        yield [1]

    with pytest.raises(WorkloadError, match="the loader gives no batches"):
        list(loader(once()))
    with pytest.raises(WorkloadError, match="the loader gives no batches"):
        list(loader([]))


def test_two_callbacks_in_one_training(out: Path) -> None:
    first, second = Measurement("samples", None), Measurement("samples", None)
    first.join(None)
    with pytest.raises(WorkloadError, match=r"two ScaleCurve callbacks measure the same training; use one"):
        second.join(None)
    first.bench.session.recorder.close()


def test_a_second_training_of_a_trial_is_not_measured(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list(loader([[0]], then="stop"))
    before = record(out)
    assert len(list(loader([[0]] * 4, then="stop"))) == 4
    assert "an earlier training of this process was measured, this one is not" in capsys.readouterr().err
    assert record(out) == before


def test_a_training_of_too_few_steps_is_refused_at_once(out: Path) -> None:
    measurement = Measurement("samples", None)
    with pytest.raises(WorkloadError, match="the training has 9 steps, and the measurement needs at least 14; more"):
        measurement.join(None, 9, "more epochs")
    assert not measurement.running


def test_a_training_that_ends_early(out: Path) -> None:
    measurement = Measurement("samples", None)
    measurement.join(None)
    assert measurement.next_step()
    with pytest.raises(WorkloadError, match="the training ended before all windows were measured; more epochs"):
        measurement.training_ended("more epochs")


def test_a_short_training_by_hand_is_told_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    measurement = Measurement("samples", None)
    measurement.join(None, 5, "more epochs")
    assert measurement.next_step()
    measurement.training_ended("more epochs")
    printed = capsys.readouterr()
    assert "the training has 5 steps, and the measurement needs at least 354; more epochs" in printed.err
    assert "no window was completed" in printed.out


@pytest.mark.parametrize(
    ("unit", "then", "message"), [("words", None, "unit='words'"), ("tokens", "die", "then='die'")]
)
def test_arguments_are_checked(unit: Any, then: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"ScaleCurve: {message}; expected "):
        Measurement(unit, then)


def test_tokens_without_tokens(out: Path) -> None:
    measurement = Measurement("tokens", None)
    measurement.join(None)
    measurement.next_step()
    with pytest.raises(WorkloadError, match="unit='tokens': a batch has no integers"):
        measurement.batch([0.5, 0.5])


def test_a_library_that_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    assert library("json", "pytest", "8.3").dumps(1) == "1"
    with pytest.raises(LibraryError, match=r"pytest 99.0 or later is needed, and \S+ is installed; run: pip install"):
        library("json", "pytest", "99.0")
    monkeypatch.setattr(libraries, "version", missing)
    with pytest.raises(LibraryError, match=r"needed and not installed; run: pip install -U 'accelerate\[x\]'"):
        library("json", "accelerate[x]", "1.0")


class Loop:
    def run(self) -> tuple[object, object, object]:
        epoch_iterator = 7
        return caller(Loop), caller(dict), (local_of_caller("epoch_iterator"), epoch_iterator)


def test_the_object_whose_loop_runs() -> None:
    loop = Loop()
    assert loop.run() == (loop, None, (7, 7))
    assert local_of_caller("no_such_variable") is None
