from dataclasses import replace
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.curves.compute import scaling
from scalecurve.curves.headline import explain_above_one
from scalecurve.curves.progress import status
from scalecurve.curves.results import ScalingResult
from scalecurve.curves.tables import scaling_table, side_by_side_table, split_table
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point, TrialPhase
from tests.analysis.synthetic import Truth, experiment, with_windows, write_bundle

EXACT = Truth(step_s=lambda p: 0.1, exposed_share=lambda p: 0.25, step_cv=0, repetition_cv=0)


def result(folder: Path, of: ScalingExperiment, truth: Truth = EXACT, **more: object) -> ScalingResult:
    return scaling([open_bundle(write_bundle(folder, of, truth, tables=False, **more))])  # type: ignore[arg-type]


def weak(**spec: object) -> ScalingExperiment:
    return experiment(modes=["weak"], windows=3, steps_per_window=10, **spec)  # type: ignore[arg-type]


def test_the_truth_is_found(tmp_path: Path):
    loss = {1: 1.0, 2: 1.25, 4: 2.0}
    truth = Truth(step_s=lambda p: 0.1 * loss[p.workers], step_cv=0, repetition_cv=0)
    (series,) = result(tmp_path, weak(), truth).series
    assert [p.throughput.value for p in series.points] == pytest.approx([640, 1024, 1280])
    assert [p.speedup.value for p in series.points] == pytest.approx([1, 1.6, 2])
    assert [p.efficiency.value for p in series.points] == pytest.approx([1, 0.8, 0.5])
    assert [p.step_s.value for p in series.points] == pytest.approx([0.1, 0.125, 0.2])
    start = "weak: 2× speed-up on 4 workers (within one session on one machine), efficiency 50.0 %; "
    assert series.headline.startswith(start + "compute alone would keep 55.6 %")


def test_intervals_hold_the_truth_of_noisy_trials(tmp_path: Path):
    of = weak(repetitions=5)
    (series,) = result(tmp_path, of, Truth(step_s=lambda p: 0.1, repetition_cv=0.01)).series
    assert all(p.throughput.covers(640 * p.workers) for p in series.points)
    assert all(p.efficiency.low < 1 < p.efficiency.high for p in series.points[1:])


def test_worker_counts_are_numbers(tmp_path: Path):
    """As strings 16 comes before 2, and the baseline is whatever row comes first."""
    (series,) = result(tmp_path, weak(workers=[16, 2, 10, 1])).series
    assert [p.workers for p in series.points] == [1, 2, 10, 16]
    assert series.baseline == 1


def test_throughput_is_a_ratio_of_sums_and_not_a_mean_of_rates(tmp_path: Path):
    def stretch(record: TrialRecord) -> TrialRecord:
        windows = [w.model_copy(update={"wall_ns": w.wall_ns * (9 if w.index == 0 else 1)}) for w in record.windows]
        return with_windows(record, windows)

    (series,) = result(tmp_path, weak(workers=[1, 2]), change=stretch).series
    # Three train windows of 1 s, one stretched to 9 s: 30 steps in 11 s.
    assert series.points[0].throughput.value == pytest.approx(64 * 30 / 11)


def test_the_baseline_is_the_one_that_is_named(tmp_path: Path):
    of = weak()
    of = of.model_copy(
        update={"spec": of.spec.model_copy(update={"scaling": of.spec.scaling.model_copy(update={"baseline": 2})})}
    )
    (series,) = result(tmp_path, of).series
    assert [p.speedup.value for p in series.points] == pytest.approx([0.5, 1, 2])
    assert [p.efficiency.value for p in series.points] == pytest.approx([1, 1, 1])
    assert "2× speed-up on 4 workers over 2" in series.headline


def test_without_its_baseline_a_series_has_no_speedup(tmp_path: Path):
    of = weak()
    endings = {t.name: (TrialPhase.failed, "RankFailed", "") for t in make_plan(of).trials if t.point.workers == 1}
    found = result(tmp_path, of, endings=endings)
    (series,) = found.series
    assert [p.speedup for p in series.points] == [None, None, None]
    assert series.points[1].throughput is not None
    assert "baseline of 1 worker was not measured" in series.headline
    assert any("has no Succeeded trial" in note for note in scaling_table(found).notes)
    assert len(found.excluded) == 3


def test_efficiency_above_one_is_kept_and_explained(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.1 if p.workers == 1 else 0.09, step_cv=0.001, repetition_cv=0.001)
    (series,) = result(tmp_path, weak(), truth).series
    assert series.points[1].efficiency.value == pytest.approx(1 / 0.9, rel=0.01)
    said = "above 1 at 2 workers"
    assert any(said in note and "beyond noise" in note for note in series.notes)
    progress = status(open_bundle(tmp_path))
    assert any(said in note for note in progress.table().notes)


def test_an_efficiency_above_one_without_an_interval_is_explained_too(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.1 if p.workers == 1 else 0.05, step_cv=0.001, repetition_cv=0.0)
    (series,) = result(tmp_path, weak(repetitions=1), truth).series
    points = [replace(p, efficiency=Estimate.not_known(2.0, 0.95, 1)) if p.workers == 2 else p for p in series.points]
    assert any("above 1 at 2 workers (200.0 %) may be noise" in note for note in explain_above_one(series.name, points))


@pytest.mark.parametrize(("alone", "both", "said"), [(0.5, 0.95, True), (0.95, 0.9, False), (0.9, 0.95, False)])
def test_a_baseline_that_waits_is_named(alone: float, both: float, said: bool, tmp_path: Path):
    def load(record: TrialRecord) -> TrialRecord:
        return record.model_copy(update={"own_load": [alone] if record.trial.point.workers == 1 else [both, both]})

    (series,) = result(tmp_path, weak(workers=[1, 2]), change=load).series
    found = [note for note in series.notes if "busy 50 % of the time at 1 worker, 95 % at 2 workers" in note]
    assert bool(found) == said


def test_layouts_are_never_joined_in_one_line(tmp_path: Path):
    of = weak(workers=[2, 4], placement={"layouts": ["1x2", "2x1", "1x4", "2x2"]})
    folder = tmp_path / "bundle"
    found = result(folder, of)
    assert [{p.point.nodes for p in s.points} for s in found.series] == [{1}, {2}]
    (folder / "experiment.yaml").write_text("broken")
    again = scaling([open_bundle(folder)])
    assert [{p.point.nodes for p in s.points} for s in again.series] == [{1}, {2}]


def test_exposed_communication_comes_from_the_alternated_windows(tmp_path: Path):
    (series,) = result(tmp_path, weak()).series
    one, two, _ = series.points
    assert one.exposed_s is None
    assert one.plain_throughput is not None
    assert two.exposed_s.value == pytest.approx(0.025)
    assert two.compute_s.value == pytest.approx(0.075)
    assert two.exposed_share.value == pytest.approx(0.25)


def test_energy_is_joules_over_samples(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.1, step_cv=0, repetition_cv=0, energy_w=320)
    (series,) = result(tmp_path, weak(), truth).series
    assert [p.energy_j.value for p in series.points] == pytest.approx([0.5, 0.5, 0.5])


def test_energy_that_some_window_does_not_know_is_left_out(tmp_path: Path):
    def forget(record: TrialRecord) -> TrialRecord:
        windows = [w.model_copy(update={"energy_j": None}) if w.index == 0 else w for w in record.windows]
        return record.model_copy(update={"windows": windows})

    (series,) = result(tmp_path, weak(), Truth(energy_w=320), change=forget).series
    assert [p.energy_j for p in series.points] == [None, None, None]


def test_one_repetition_is_marked(tmp_path: Path):
    (series,) = result(tmp_path, weak(repetitions=1), Truth()).series
    assert series.points[0].throughput.within_run_only
    assert any("single repetition at 1, 2, 4 workers" in note for note in series.notes)


def test_a_record_without_timed_windows_has_no_place_on_a_curve(tmp_path: Path):
    found = result(tmp_path, weak(workers=[1, 2]), change=lambda record: record.model_copy(update={"windows": []}))
    assert [p.measured for p in found.series[0].points] == [False, False]
    assert scaling_table(found).spelled()[0][5] == "–"
    assert "Throughput" in scaling_table(found).text()
    assert found.series[0].headline == "weak: nothing measured"


def test_windows_of_no_length_are_not_divided_by(tmp_path: Path):
    def empty(record: TrialRecord) -> TrialRecord:
        windows = [w.model_copy(update={"wall_ns": 0}) if w.kind is WindowKind.train else w for w in record.windows]
        return record.model_copy(update={"windows": windows})

    assert not result(tmp_path, weak(), change=empty).series[0].measured


def test_bundles_of_one_name_keep_their_own_rows(tmp_path: Path):
    folder = write_bundle(tmp_path, weak(workers=[1, 2]), EXACT, tables=False)
    table = scaling_table(scaling(open_bundles([folder, folder])))
    assert [row[0] for row in table.rows] == ["synthetic", "synthetic", "synthetic#2", "synthetic#2"]


def test_strong_and_weak_stand_side_by_side(tmp_path: Path):
    found = result(tmp_path, experiment(workers=[1, 2], windows=2, steps_per_window=5))
    table = side_by_side_table(found)
    assert [column.name for column in table.columns][:3] == ["workers", "layout", "strong_throughput"]
    assert len(table.rows) == 2
    assert side_by_side_table(result(tmp_path / "weak", weak())).rows == ()


def test_frames_hold_numbers(tmp_path: Path):
    found = result(tmp_path, weak())
    frame = scaling_table(found).frame()
    assert frame["throughput"].dtype == "float64"
    assert frame["workers"].tolist() == [1, 2, 4]
    assert split_table(found).frame()["exposed_ms"].tolist()[1] == pytest.approx(25)


def test_points_keep_their_place_when_names_are_spelled_otherwise(tmp_path: Path):
    """A bundle of another version, whose plan spelled names in another way, is read all the same."""
    folder = write_bundle(tmp_path, weak(workers=[1, 2]), EXACT, tables=False, rename=lambda name: f"old-{name}")
    bundle = open_bundle(folder)
    assert bundle.problems == ()
    assert [s.measured[1].efficiency.value for s in scaling([bundle]).series] == pytest.approx([1])


def test_points_of_one_series_do_not_share_a_count() -> None:
    points: list[Point] = list(make_plan(weak(workers=[1, 2, 4])).points)
    assert len({(p.series, p.workers) for p in points}) == len(points)


def test_what_is_recomputed_is_seen_beside_mfu(tmp_path: Path):
    def recomputing(record: TrialRecord) -> TrialRecord:
        return record.model_copy(update={"flops_per_sample": 1e9, "hardware_flops_per_sample": 1.25e9})

    found = result(tmp_path, weak(workers=[1, 2]), change=recomputing)
    for point in found.series[0].points:
        assert point.hfu.value == pytest.approx(1.25 * point.mfu.value)
    table = split_table(found).frame()
    assert table["hfu"].tolist() == pytest.approx((1.25 * table["mfu"]).tolist())
