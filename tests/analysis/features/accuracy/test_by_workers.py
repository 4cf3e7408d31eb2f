"""When a run has settled, what more workers would do, and the batch beyond which they stop paying."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.features.accuracy.results import training
from scalecurve.features.accuracy.results.by_workers import TOLERANCE, WIDTH, moving_average, settled
from scalecurve.features.accuracy.results.critical_batch import critical_batches, noise_scale_of_run
from scalecurve.features.accuracy.results.extrapolation import extrapolate
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.features.noise_scale.facts import NOISE_SCALE, NoiseScaleRow
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.recommend.recommend import recommend
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import with_facts

ACCURACIES = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(ACCURACIES, st.integers(1, 5), st.floats(0, 0.2))
def test_a_settled_run_stays_and_did_not_before(values: list[float], width: int, tolerance: float) -> None:
    found = settled(values, width, tolerance)
    if found is None:
        return
    smooth = moving_average(values, width)
    least = max(smooth) - tolerance
    place = found.index - width + 1
    assert found.maximum == max(smooth)
    assert all(value >= least for value in smooth[place:])
    assert place == 0 or smooth[place - 1] < least
    # As many epochs again as are averaged were seen to stay.
    assert width - 1 <= found.index < len(values) - width


@given(ACCURACIES, st.integers(1, 30))
def test_what_has_settled_stays_so_when_it_goes_on_at_its_level(values: list[float], more: int) -> None:
    found = settled(values)
    if found is None:
        return
    longer = settled([*values, *([values[-1]] * more)])
    # Going on at the last value cannot leave the band, nor raise its maximum by more than the last mean's slack.
    if longer is not None and longer.maximum == found.maximum and values[-1] >= found.maximum - TOLERANCE:
        assert longer.index == found.index


def test_by_hand() -> None:
    # Means of three: 0.2, 0.5, 0.7667, 0.9, 0.9, 0.9, 0.9; the fourth is at the sixth evaluation.
    rising = [0.0, 0.2, 0.4, 0.9, 0.9999999, 0.9, 0.8, 1.0, 0.9]
    assert settled([0.1, 0.2, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]) is not None
    assert settled([0.1, 0.2, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]).index == 5  # type: ignore[union-attr]
    assert settled(rising, width=1, tolerance=0.3).index == 3  # type: ignore[union-attr]
    # Still rising at the end; too short; down again at the end.
    assert settled([k / 20 for k in range(20)]) is None
    assert settled([0.9] * (2 * WIDTH)) is None
    assert settled([0.9] * 20 + [0.1] * 3) is None
    with pytest.raises(ValueError, match="width 0"):
        settled([0.5], width=0)


@given(intercept=st.floats(0.5, 5), slope=st.floats(-0.3, 0.3), counts=st.integers(3, 6), further=st.integers(1, 3))
def test_a_line_goes_on(intercept: float, slope: float, counts: int, further: int) -> None:
    runs = {2**k: [math.exp(intercept + slope * k)] * 3 for k in range(counts)}
    workers = 2 ** (counts - 1 + further)
    found = extrapolate(runs, workers)
    assert found.why == ""
    assert found.value == pytest.approx(math.exp(intercept + slope * math.log2(workers)), rel=1e-6)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    told = held = 0
    for _ in range(400):
        runs = {2**k: (5 + 0.5 * k + 0.2 * draw.standard_normal(4)).tolist() for k in range(4)}
        found = extrapolate(runs, 16, logarithm=False)
        if found.low is not None and found.high is not None:
            told += 1
            held += found.low <= 5 + 0.5 * 4 <= found.high
    # About 5 % are refused by the test at the largest count.
    assert told > 340
    assert held > told * 0.95 - 4 * math.sqrt(told * 0.95 * 0.05)


def test_what_bends_or_was_run_too_little_is_not_identifiable() -> None:
    assert "2 worker counts" in extrapolate({1: [3.0, 3.1], 2: [2.0, 2.1]}, 4).why
    assert "too few repetitions" in extrapolate({1: [3.0], 2: [2.0], 4: [1.5]}, 8).why
    bent = extrapolate({1: [8.0, 8.1, 8.2], 2: [4.0, 4.1, 4.05], 4: [8.0, 8.1, 8.2]}, 8)
    assert bent.value is None
    assert bent.why.startswith("not identifiable: fewer workers predict 2.025")
    with pytest.raises(ValueError, match="logarithm"):
        extrapolate({1: [0.0]}, 2)


SCALE = 96.0


def of(workers: list[int], name: str = "workers") -> ScalingExperiment:
    return experiment(
        name,
        modes=["weak"],
        workers=workers,
        windows=2,
        steps_per_window=5,
        workload={"model": "mlp", "data": {"source": "digits"}, "options": {"gradientAccumulation": 2}},
        measure={
            "windows": 2,
            "stepsPerWindow": 5,
            "repetitions": 3,
            "accuracy": {"epochs": 20, "noiseScale": True},
        },
    )


def learnt(trial: TrialSpec) -> list[Evaluation]:
    """One epoch more for each doubling; seeds are a little apart."""
    late = 4 + math.log2(trial.point.workers)
    out = []
    for epoch in range(1, 21):
        share = 0.9 * min(1.0, epoch / late) + 0.001 * trial.repetition
        wall = epoch * 2.0 / trial.point.workers * (1 + 0.01 * trial.repetition)
        out.append(
            Evaluation(
                epoch=epoch, step=10 * epoch, wall_s=wall, train_loss=1 / epoch, loss=1 / epoch, accuracy=share,
                train_accuracy=min(1.0, share + 0.02),
            )
        )  # fmt: skip
    return out


def noisy(record: TrialRecord) -> TrialRecord:
    rows = [
        NoiseScaleRow(
            epoch=epoch, steps=10, small_batch=32, large_batch=64, small_norm2=2.0, large_norm2=1.0, gradient2=1.0,
            trace=SCALE, simple=SCALE * (1 + 0.1 * record.trial.repetition), simple_low=60.0, simple_high=150.0,
        )
        for epoch in range(1, 21)
    ]  # fmt: skip
    return with_facts(record, noiseScale=rows)


def test_tables_against_workers(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", of([1, 2, 4]), evaluations=learnt, tables=False)
    tables = {table.name: table for table in training([open_bundle(folder)]).tables()}
    against = tables["against-workers"]
    assert [row[2] for row in against.rows] == [1, 2, 4]
    names = [column.name for column in against.columns]
    epochs = [row[names.index("epochs_to_settle")].value for row in against.rows]  # type: ignore[union-attr]
    # The mean of three comes within half a percent two epochs after the curve itself.
    assert epochs == [6.0, 7.0, 8.0]
    assert [row[names.index("settled")] for row in against.rows] == ["3/3"] * 3
    seconds = [row[names.index("to_settle_s")].value for row in against.rows]  # type: ignore[union-attr]
    assert seconds == pytest.approx([6 * 2 * 1.01, 7 * 1.01, 8 / 2 * 1.01])
    beyond = {(row[2], row[3]): row for row in tables["beyond-workers"].rows}
    assert {workers for _, workers in beyond} == {8, 16}
    found = beyond["seconds per epoch", 8][4]
    assert found.value == pytest.approx(0.25 * 1.01, rel=0.01)  # type: ignore[union-attr]
    by_epoch = tables["epochs"]
    assert [row[3] for row in by_epoch.rows[:12]] == [1, 3, 4, 6, 8, 10, 11, 13, 15, 17, 18, 20]


def test_two_worker_counts_have_one_line_for_what_is_not_known(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", of([1, 2]), evaluations=learnt, tables=False)
    tables = {table.name: table for table in training([open_bundle(folder)]).tables()}
    (row,) = tables["beyond-workers"].rows
    assert row[2:] == ("all", None, None, "not identifiable: 2 worker counts; a trend needs 3")


def test_one_worker_count_has_no_such_table(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", of([2]), evaluations=learnt, tables=False)
    names = {table.name for table in training([open_bundle(folder)]).tables()}
    assert not names & {"against-workers", "beyond-workers", "epochs"}


def test_the_batch_beyond_which_workers_stop_paying(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", of([1, 2, 4]), evaluations=learnt, change=noisy)
    bundle = open_bundle(folder)
    (found,) = critical_batches(training([bundle]).points)
    assert found.scale == pytest.approx(SCALE * (1.1 * 1.2) ** (1 / 3))
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.scale < found.high
    assert found.runs == 9
    assert "stop paying off at a batch of about 105" in found.sentence
    assert ", 1 worker of 64: steps and samples are then twice their minimum" in found.sentence
    result = CliRunner().invoke(cli, ["recommend", str(folder), "--output", "json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["batch-worth"]["rows"]
    assert [row["batch"] for row in rows] == [64, 128, 256]
    for row in rows:
        assert row["steps"] == pytest.approx(1 + found.scale / row["batch"], rel=1e-5)
        assert row["samples"] == pytest.approx(1 + row["batch"] / found.scale, rel=1e-5)
    assert [row["pays"] for row in rows] == ["yes", "no", "no"]
    # A larger batch learns less from a sample, so that the same work takes longer than without the noise scale.
    with_noise = recommend(bundle).series[0].candidates[-1].seconds
    given = recommend(bundle, noise_scale=found.scale).series[0].candidates[-1].seconds
    without = recommend(bundle, noise_scale=1e12).series[0].candidates[-1].seconds
    assert with_noise is not None
    assert given is not None
    assert without is not None
    assert np.array_equal(with_noise, given)
    assert np.median(with_noise / without) == pytest.approx((found.scale + 256) / (found.scale + 64), rel=1e-3)


def test_a_noise_scale_that_no_run_can_tell(tmp_path: Path) -> None:
    def untold(record: TrialRecord) -> TrialRecord:
        rows = [
            row.model_copy(update={"simple": None, "simple_low": None, "simple_high": None})
            for row in NOISE_SCALE.of(noisy(record))
        ]
        return with_facts(record, noiseScale=rows)

    folder = write_bundle(tmp_path / "b", of([1, 2]), evaluations=learnt, change=untold)
    (found,) = critical_batches(training([open_bundle(folder)]).points)
    assert found.scale is None
    assert "not identifiable" in found.sentence
    assert noise_scale_of_run([]) is None
    result = CliRunner().invoke(cli, ["recommend", str(folder)])
    assert "not identifiable" in result.output


FINALS = {"head": (0.80, 0.81, 0.82), "all": (0.90, 0.92, 0.94), "scratch": (0.85, 0.91, 0.97)}


def test_the_winner_and_how_far_the_others_are_behind(tmp_path: Path) -> None:
    def ended(trial: TrialSpec) -> list[Evaluation]:
        final = FINALS[str(trial.point.axes["transfer.train"])][trial.repetition]
        worse = 0.1 if trial.point.axes["optimizer.learningRate"] == 0.1 else 0.0
        return [Evaluation(epoch=1, step=1, wall_s=1.0, train_loss=1.0, loss=1.0, accuracy=final - worse)]

    asked = experiment(
        "approaches",
        modes=["weak"],
        workers=[1],
        windows=2,
        steps_per_window=5,
        workload={
            "model": "resnet20",
            "strategy": "single",
            "data": {"source": "digits"},
            "transfer": {"checkpoint": "a.pt"},
        },
        matrix={"transfer.train": list(FINALS), "optimizer.learningRate": [0.01, 0.1]},
        measure={"windows": 2, "stepsPerWindow": 5, "repetitions": 3, "accuracy": {"epochs": 1}},
    )
    bundle = open_bundle(write_bundle(tmp_path / "b", asked, evaluations=ended, tables=False))
    table = next(table for table in training([bundle]).tables() if table.name == "approaches")
    names = [column.name for column in table.columns]
    found = {(row[1], row[2]): dict(zip(names, row, strict=True)) for row in table.rows}
    assert len(found) == 6
    assert {key: row["place"] for key, row in found.items()} == {
        ("head", "0.01"): "best of its approach",
        ("head", "0.1"): None,
        ("all", "0.01"): "highest, not separable",
        ("all", "0.1"): None,
        ("scratch", "0.01"): "best of its approach, tied with the best",
        ("scratch", "0.1"): "tied with the best",
    }
    assert found["all", "0.01"]["behind"] is None
    assert found["head", "0.01"]["behind"].value == pytest.approx(0.11)  # type: ignore[union-attr]
