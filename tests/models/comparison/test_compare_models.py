from pathlib import Path

import pytest

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve_api.spec.trial import Point
from scalecurve_models.comparison.compare_models import BASELINE, HELD_OUT, LEFT_OUT, NOT_MEASURED, compare_models
from scalecurve_models.comparison.tables import comparison_tables, prediction_tables
from scalecurve_models.fit.fit_bundle import fit
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.fitting.observations import observed_series, programs
from tests.analysis.synthetic import Truth, experiment, write_bundle

COST = {"perWorkerHour": 0.9, "currency": "USD", "datasetSamples": 1_281_167, "epochs": 90}


def step_s(point: Point) -> float:
    n = point.workers
    own = 0.005 + 0.0012 * (point.batch_per_worker or 0)
    return own + (0 if n == 1 else 0.004 + 0.002 * (1 - 1 / n) + 0.0004 * (n - 2))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    spec = experiment("fit", workers=[1, 2, 4, 8], windows=3, steps_per_window=5, cost=COST)
    truth = Truth(step_s=step_s, repetition_cv=0.004, step_cv=0.01, energy_w=300.0)
    return open_bundle(write_bundle(tmp_path_factory.mktemp("fit"), spec, truth, seed=1, tables=False))


def test_points_are_those_of_the_records(measured: Bundle):
    strong, weak = observed_series(measured)
    assert (strong.name, weak.name, strong.workers) == ("strong", "weak", (1, 2, 4, 8))
    point = weak.at(4)
    assert point is not None
    assert point.batch_per_worker == pytest.approx(64)
    assert point.throughput == pytest.approx(256 / step_s(point.point), rel=0.02)
    assert [len(p.repetitions) for p in weak.points] == [3, 3, 3, 3]
    assert point.repetitions[0].compute_s == pytest.approx(0.9 * point.repetitions[0].step_s, rel=0.02)
    assert weak.batch_at(16) == pytest.approx(16 * 64)
    assert strong.batch_at(16) == strong.batch_at(2)
    assert strong.nodes_at(16) == 2
    assert list(programs([strong, weak]).values()) == [(strong, weak)]


def test_every_prediction_beside_a_measurement_was_made_without_it(measured: Bundle):
    for each in compare_models(measured):
        rows = [row for row in each.rows if row.model in ("", "gustafson")]
        assert [row.how for row in rows] == [BASELINE, LEFT_OUT, LEFT_OUT, LEFT_OUT]
        assert rows[0].predicted is None
        model = next(model for model in each.prediction.models if model.name == "gustafson")
        assert model is not None
        assert [row.error for row in rows[1:]] == list(model.errors)
        assert min(model.held_out_mean for model in each.prediction.leading) < 0.03
        assert model.in_sample_mean != model.held_out_mean


def test_a_step_model_learns_from_both_modes(measured: Bundle):
    for each in compare_models(measured):
        model = next(model for model in each.prediction.models if model.name == "overlap")
        assert model is not None
        assert model.held_out_mean is not None
        assert model.held_out_mean < 0.05


def test_counts_that_were_held_out_by_name_are_seen_by_no_fit(measured: Bundle):
    for each in compare_models(measured, hold_out=[8]):
        assert each.prediction.fitted_to.workers == (1, 2, 4)
        last = [row for row in each.rows if row.workers == 8]
        assert {row.how for row in last} == {HELD_OUT}
        assert all(row.error is not None for row in last)
        leading = {model.name for model in each.prediction.leading}
        assert min(abs(row.error) for row in last if row.model in leading) < 0.06


def test_further_counts_are_predicted_with_an_interval(measured: Bundle):
    for each in compare_models(measured, workers=[64]):
        rows = [row for row in each.rows if row.workers == 64]
        assert {row.how for row in rows} == {NOT_MEASURED}
        ring = next(row for row in rows if row.model == "ring")
        assert ring.low < ring.predicted < ring.high
        curve = next(curve for curve in each.curves if curve.leads)
        assert curve.workers[-1] == 64
        assert len(curve.workers) == len(curve.throughput) == len(curve.low)


def test_time_and_cost_have_the_errors_that_follow_from_throughput(measured: Bundle):
    predicted, errors, models, parameters = comparison_tables(compare_models(measured))
    frame = predicted.frame()
    known = frame[frame["how"] == LEFT_OUT]
    assert (1 / (1 + known["error"]) - 1).to_numpy() == pytest.approx(known["error_s"].to_numpy())
    seconds = known["predicted_cost"] / (0.9 * known["workers"] / 3600)
    assert seconds.to_numpy() == pytest.approx(known["predicted_s"].to_numpy())
    assert known["measured_s"].iloc[0] == pytest.approx(1_281_167 * 90 / known["measured"].iloc[0])
    assert len(errors.rows) == 8
    assert not any(row[[c.name for c in models.columns].index("best")] for row in models.rows)
    named = {row[-1] for row in errors.rows}
    assert all(name.startswith("not separable: ") for name in named)
    assert all(any(name in note for note in models.notes) for name in named)
    assert {row[2] for row in parameters.rows} >= {"amdahl", "ring", "overlap", "optimus"}
    assert len({(row[1], row[2], row[3]) for row in parameters.rows}) == len(parameters.rows)


def test_tables_of_a_bundle_are_the_same_every_time(measured: Bundle):
    first, second = (tuple(table.csv() for table in fit(measured).tables()) for _ in range(2))
    assert first == second


def test_two_points_refuse_what_they_cannot_carry(tmp_path: Path):
    spec = experiment("two", modes=["weak"], workers=[1, 2], repetitions=2, windows=2, steps_per_window=3)
    bundle = open_bundle(write_bundle(tmp_path / "b", spec, Truth(step_s=step_s), tables=False))
    (each,) = compare_models(bundle)
    assert [model.name for model in each.prediction.models if model.held_out_mean is not None] == ["linear"]
    assert each.prediction.best is None  # tested alone, it beats nothing
    failures = {model.name: model.failure for model in each.prediction.models if model.failure}
    assert failures["usl"].startswith("usl: 2 parameters need at least 2 worker counts beside the baseline of 1")
    assert failures["optimus"].endswith("different runs, got 2")
    notes = fit(bundle).tables()[2].csv()
    assert "2 parameters need at least 2 worker counts" in notes
    assert any("no model is called the best" in note for note in fit(bundle).tables()[2].notes)


def test_two_counts_are_said_to_test_no_law(measured: Bundle):
    (models,) = (t for t in fit(measured, hold_out=[4, 8]).tables() if t.name == "models")
    assert any(note.startswith("strong: 1 and 2 workers test no law") for note in models.notes)
    (models,) = (t for t in fit(measured).tables() if t.name == "models")
    assert not any("test no law" in note for note in models.notes)


def test_an_empty_bundle_says_so(tmp_path: Path):
    spec = experiment("none", modes=["weak"], workers=[1, 2], repetitions=1)
    names = [f"weak-{n}-1x{n}-r1" for n in (1, 2)]
    bundle = open_bundle(write_bundle(tmp_path / "b", spec, absent=names, tables=False))
    assert comparison_tables(compare_models(bundle)) == ()
    (table,) = fit(bundle).tables()
    assert table.title == "No measured points to fit a model to"


def test_a_count_that_was_not_measured_cannot_be_held_out(measured: Bundle):
    with pytest.raises(FitError, match=r"cannot hold out worker count 3: not measured \(measured: 1, 2, 4, 8\)"):
        fit(measured, [3])
    with pytest.raises(FitError, match="every worker count is held out; nothing is left to fit to"):
        fit(measured, [1, 2, 4, 8])


def test_device_fits_find_the_batch_and_the_power(measured: Bundle):
    (device,) = fit(measured).devices
    assert device.utilization is not None
    t0, t1, *_ = device.utilization.parameters
    assert t1.value == pytest.approx(0.0012, rel=0.2)
    assert device.energy is not None
    e, p = device.energy.parameters
    assert p.value == pytest.approx(300, rel=0.05)
    assert t0.value is not None
    assert e.value is not None


def test_a_larger_batch_is_predicted_from_smaller_ones(tmp_path: Path):
    """t = 0.01 + 0.001 m, and 5 ms of exchange: the step models find the batch that no fit saw."""

    def step(point: Point) -> float:
        assert point.batch_per_worker
        return 0.01 + 0.001 * point.batch_per_worker + (0.005 if point.workers > 1 else 0)

    def alone(point: Point) -> float:
        return 0.0 if point.workers == 1 else 0.005 / step(point)

    of = experiment(
        "batches", modes=["weak"], workers=[1, 2], windows=2, steps_per_window=10, repetitions=2,
        matrix={"batch.perWorker": [8, 16, 32, 64]},
    )  # fmt: skip
    truth = Truth(step_s=step, exposed_share=alone, step_cv=0.001, repetition_cv=0.001)
    bundle = open_bundle(write_bundle(tmp_path / "b", of, truth, tables=False))
    found = fit(bundle, hold_out_batches=[64]).scaling
    (unseen,) = [each for each in found if each.series.name.endswith("=64")]
    assert {row.how for row in unseen.rows} == {HELD_OUT}
    assert {(row.workers, row.model) for row in unseen.rows} == {(n, m) for n in (1, 2) for m in ("overlap", "optimus")}
    assert all(abs(row.error or 0) < 0.01 for row in unseen.rows if row.model == "overlap")
    with pytest.raises(FitError, match="cannot hold out batch 65: not measured \\(measured: 8, 16, 32, 64\\)"):
        fit(bundle, hold_out_batches=[65])
    with pytest.raises(FitError, match="nothing is left"):
        fit(bundle, hold_out_batches=[8, 16, 32, 64])


def test_a_prediction_from_noise_alone_has_no_interval(tmp_path: Path) -> None:
    """Its ends were printed: 2,277 (0.099 to 52,520,826)."""
    of = experiment("noise", modes=["weak"], workers=[1, 2, 4, 8], repetitions=2, windows=2, steps_per_window=5)
    bundle = open_bundle(write_bundle(tmp_path, of, Truth(repetition_cv=2.0), tables=False))
    rows = prediction_tables(bundle, [8], hold_out=[8])[0].plain()["rows"]
    assert {row["low"] for row in rows if row["model"] == "linear"} == {"not known"}
