"""What scripts call: tokens, the context manager, a second attach, and a bench whose loop is left."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scalecurve_worker as scalecurve
from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, failure_file, rank_file
from scalecurve_api.record.rank import RankFailure, RankRecord
from scalecurve_worker.process import failure
from scalecurve_worker.sdk import attach as attaching
from scalecurve_worker.sdk.attach import attached
from scalecurve_worker.sdk.batches import batch_tokens
from scalecurve_worker.sdk.bench import Bench
from tests.worker.worker_ranks import make_trial


class Shaped:
    """As much of an array as the SDK looks at."""

    def __init__(self, *shape: int, dtype: str = "int64") -> None:
        self.shape, self.dtype = shape, dtype


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A trial of 2 warm-up steps and 2 windows of 3 with batches of 4, in this process."""
    monkeypatch.setenv(TRIAL_ENV, make_trial().model_dump_json(by_alias=True))
    monkeypatch.setenv(OUT_ENV, str(tmp_path / "out"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(failure, "_finished", False)
    benches: list[tuple[Path, Bench]] = []
    monkeypatch.setattr(attaching, "_attached", benches)
    yield tmp_path / "out"
    for _, bench in benches:
        bench.session.recorder.close()


def test_tokens_of_batches_are_counted_beside_samples(out: Path) -> None:
    bench = scalecurve.attach(unit="tokens")
    for _ in bench.steps([(Shaped(4, 3, dtype="float32"), Shaped(4, 16))]):
        pass
    record = bench.finish()
    assert record.sample_unit == "tokens"
    assert [(window.samples, window.sequences) for window in record.windows] == [(192, 12)] * 2


def test_tokens_may_be_counted_in_parts(out: Path) -> None:
    bench = scalecurve.attach(unit="tokens")
    while bench.step():
        bench.tokens(20)
        bench.tokens(7)
    assert [(w.samples, w.sequences) for w in bench.finish().windows] == [(81, 12)] * 2


def test_tokens_of_the_call_come_before_those_of_the_batch(out: Path) -> None:
    bench = scalecurve.attach(unit="tokens")
    for _ in bench.steps([Shaped(4, 16)], tokens=50):
        pass
    assert [w.samples for w in bench.finish().windows] == [150] * 2
    assert bench.complete


@pytest.mark.parametrize("count", [0, -3])
def test_tokens_are_a_positive_number(out: Path, count: int) -> None:
    bench = scalecurve.attach(unit="tokens")
    bench.step()
    with pytest.raises(ValueError, match="expected the number of tokens"):
        bench.tokens(count)


def test_which_tensor_holds_the_tokens() -> None:
    masked = {"attention_mask": Shaped(2, 9, dtype="bool"), "input_ids": Shaped(2, 8)}
    assert batch_tokens(masked) == 16
    assert batch_tokens([Shaped(2, 5, dtype="float32"), Shaped(2), Shaped(2, 7)]) == 14
    assert batch_tokens(Shaped(3, 4, 5, dtype="int32")) == 60
    assert batch_tokens((Shaped(8, 3, dtype="float32"), Shaped(8))) is None
    assert batch_tokens("text") is None


def test_a_block_finishes_by_itself(out: Path) -> None:
    with scalecurve.attach() as bench:
        while bench.step():
            pass
    assert RankRecord.model_validate_json((out / rank_file(0)).read_text()).windows
    assert not (out / failure_file(0)).exists()


def test_a_block_that_finished_before_does_so_once(out: Path) -> None:
    with scalecurve.attach() as bench:
        while bench.step():
            pass
        record = bench.finish("sum")
    assert bench.finish("another") is record
    assert record.parameter_checksum == "sum"


def test_an_error_in_a_block_is_reported(out: Path) -> None:
    def caught() -> None:
        with scalecurve.attach() as bench:
            bench.step()
            raise KeyError("text")

    with pytest.raises(KeyError):
        caught()
    report = RankFailure.model_validate_json((out / failure_file(0)).read_text())
    assert report.message == "KeyError: 'text'"
    assert not (out / rank_file(0)).exists()


@pytest.mark.parametrize(
    ("code", "steps", "finishes"), [(0, 100, True), (None, 100, True), (1, 100, False), (0, 4, False)]
)
def test_sys_exit_in_a_block(out: Path, code: int | None, steps: int, finishes: bool) -> None:
    def script() -> None:
        with scalecurve.attach() as bench:
            for _ in range(steps):
                if not bench.step():
                    break
            sys.exit(code)

    with pytest.raises(SystemExit):
        script()
    assert (out / rank_file(0)).exists() == finishes


def test_a_second_attach_returns_the_same_bench(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert attached() is None
    bench = scalecurve.attach()
    assert scalecurve.attach() is bench is attached()
    assert "attach() was called again: call it once" in capsys.readouterr().err
    while bench.step():
        pass
    record = bench.finish()
    assert not scalecurve.attach().step(), "what was measured stands"
    assert scalecurve.attach().finish() is record
    monkeypatch.setenv(OUT_ENV, str(out / "another"))
    assert scalecurve.attach() is not bench


def test_without_a_trial_every_attach_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRIAL_ENV, raising=False)
    monkeypatch.delenv(OUT_ENV, raising=False)
    assert scalecurve.attach() is not scalecurve.attach()
    assert attached() is None


def test_finish_before_the_last_window_says_so(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = scalecurve.attach()
    for _ in range(4):
        bench.step()
    assert bench.finish().windows == []
    assert "rank 0 called finish() in step 4, before the last window: let bench.steps()" in capsys.readouterr().err
