from pathlib import Path

import numpy as np
import pytest

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve_api.features.accuracy.facts import EVALUATIONS, Evaluation
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record import journal
from scalecurve_api.record.envelope import digest
from scalecurve_api.record.tables import STEPS_FILE, encode_steps
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.fit.fit_bundle import fit
from scalecurve_models.learning_curves.fit import fit_learning
from scalecurve_models.optimus.records import (
    STEPS,
    TRAINING,
    VALIDATION,
    depth_and_family,
    learning_curves,
    step_losses,
)
from tests.analysis.synthetic import Truth, experiment, run, seal, write_bundle

STEPS_AN_EPOCH = 40


def evaluations(trial: TrialSpec) -> list[Evaluation]:
    """Fewer steps with a larger batch, as gradient noise has it: S = 400 (1 + 64/B) to an accuracy of 0.9."""
    rng = np.random.default_rng([trial.seed % 1000, trial.point.workers])
    batch = trial.point.global_batch or 64
    pace = 1 / (400 * (1 + 64 / batch)) * (1 / 0.05 - 1 / 0.8)
    rows = []
    for epoch in range(1, 41):
        step = epoch * STEPS_AN_EPOCH
        wrong = (1 / (pace * step + 1 / 0.8) + 0.05) * (1 + 0.01 * rng.standard_normal())
        loss = (2 / (pace * step + 1.0) + 0.1) * (1 + 0.01 * rng.standard_normal())
        rows.append(
            Evaluation(
                epoch=epoch, step=step, wall_s=step * 0.1, train_loss=loss, loss=loss, accuracy=max(0.0, 1 - wrong)
            )
        )
    return rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    spec = experiment(
        "train",
        modes=["weak"],
        workers=[1, 2, 4],
        windows=2,
        steps_per_window=3,
        **{"measure": {"windows": 2, "stepsPerWindow": 3, "repetitions": 3, "accuracy": {"epochs": 40, "target": 0.9}}},
    )
    return open_bundle(write_bundle(tmp_path_factory.mktemp("train"), spec, tables=False, evaluations=evaluations))


def test_series_come_in_the_order_of_the_other_tables(tmp_path: Path):
    spec = experiment(
        "rules",
        modes=["weak"],
        workers=[1],
        matrix={"optimizer.name": ["sgd", "adam"]},
        **{"measure": {"windows": 2, "stepsPerWindow": 3, "repetitions": 1, "accuracy": {"epochs": 40}}},
    )
    bundle = open_bundle(write_bundle(tmp_path, spec, tables=False, evaluations=evaluations))
    assert [point.point.series for point in fit_learning(bundle).points] == [
        "weak optimizer.name=sgd",
        "weak optimizer.name=adam",
    ]


def test_curves_come_from_evaluations(trained: Bundle):
    curves, problems = learning_curves(trained)
    assert problems == ()
    assert len(curves) == 9
    assert {curve.kind for curve in curves} == {VALIDATION}
    assert curves[0].accuracies is not None


def test_the_training_loss_stands_in_the_middle_of_its_epoch(trained: Bundle):
    curves, _ = learning_curves(trained, training=True)
    assert {curve.kind for curve in curves} == {TRAINING}
    assert curves[0].steps[:2].tolist() == [STEPS_AN_EPOCH / 2, 1.5 * STEPS_AN_EPOCH]
    rows = sorted(EVALUATIONS.of(curves[0].record), key=lambda row: row.step)
    assert curves[0].losses.tolist() == [row.train_loss for row in rows]
    learning = fit(trained, training=True).learning
    assert {point.kind for point in learning.points} == {TRAINING}


def test_steps_and_time_to_the_target_stand_beside_those_of_the_runs(trained: Bundle):
    found = fit_learning(trained)
    for point in found.points:
        batch = point.point.global_batch
        assert batch is not None
        assert point.target == 0.9
        assert point.fit is not None
        assert point.reach is not None
        assert point.reach.steps == pytest.approx(400 * (1 + 64 / batch), rel=0.1)
        assert point.reached_steps == pytest.approx(point.reach.steps, rel=0.15)
        assert point.seconds[0] == pytest.approx(point.reach.steps * 0.1)
        assert point.ahead_error is not None
        assert point.ahead_error < 0.1
    names = [table.name for table in fit(trained).tables()]
    assert {"learning", "targets", "learning_parameters"} <= set(names)


def test_the_critical_batch_is_seen_in_the_steps_to_the_target(trained: Bundle):
    found = fit_learning(trained).critical
    assert found is not None
    assert found.parameters[1].value == pytest.approx(64, rel=0.35)


def test_another_target_takes_the_place_of_the_experiments(trained: Bundle):
    easier = fit_learning(trained, target=0.7)
    assert all(
        p.reached_steps < q.reached_steps for p, q in zip(easier.points, fit_learning(trained).points, strict=True)
    )
    loss = fit_learning(trained, target_loss=0.5)
    assert all(p.reach is not None and p.reach.steps and p.reached_steps for p in loss.points)
    never = fit_learning(trained, target=0.99)
    assert all(p.reach is not None and p.reach.steps is None and "flattens" in p.reach.why for p in never.points)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("resnet50", (50, "resnet")),
        ("resnet56", (56, "resnet (6n+2)")),
        ("resnet20_cifar", (20, "resnet (6n+2)")),
        ("vgg16", (16, "vgg")),
        ("mlp", (None, "mlp")),
        ("gpt2_small", (None, "gpt2_small")),
    ],
)
def test_depth_and_family_are_read_from_the_name(model: str, known: tuple[int | None, str]):
    assert depth_and_family(model) == known


def with_losses(folder: Path, source: str = "cifar10") -> Path:
    """A bundle whose steps carry losses, of three depths."""
    spec = experiment(
        "depths", modes=["weak"], workers=[2], repetitions=1, windows=4, steps_per_window=50,
        matrix={"model": ["resnet20", "resnet32", "resnet56"]}, workload={"data": {"source": source}},
    )  # fmt: skip
    write_bundle(folder, spec, tables=False)
    for order, trial in enumerate(make_plan(spec).trials):
        depth = int(trial.workload.model.removeprefix("resnet"))
        record, _ = run(trial, Truth(), seed=[0, order], tables=False)
        k = np.arange(20.0 + 2 * 4 * 50)
        loss = (1 / (0.02 * (depth / 20) ** 0.5 * k + 0.4) + 0.2) * (
            1 + 0.01 * np.random.default_rng(order).standard_normal(len(k))
        )
        journals = {}
        for rank in range(2):
            rows = np.zeros(len(k), dtype=np.dtype(journal.ROW_DTYPE))
            rows["step"] = np.arange(len(k))
            rows["duration_ns"], rows["window"] = 1000, journal.WARMUP_WINDOW
            for window in record.windows:
                steps = slice(window.first_step, window.first_step + window.steps)
                rows["duration_ns"][steps], rows["window"][steps] = window.wall_ns // window.steps, window.index
                rows["samples"][steps] = window.samples // window.steps // 2
            rows["loss"] = loss + (0.01 if rank else -0.01)
            rows["loss"][7] = np.nan
            journals[rank] = journal.HEADER.pack(journal.MAGIC, rank, journal.ROW.size) + rows.tobytes()
        data = encode_steps(journals)
        home = folder / "trials" / trial.name
        (home / STEPS_FILE).write_bytes(data)
        update = {"files": {STEPS_FILE: digest(data)}, "parameters": depth * 13_500}
        seal(home, record.model_copy(update=update))
    return folder


def test_losses_of_steps_serve_where_there_are_no_evaluations(tmp_path: Path):
    bundle = open_bundle(with_losses(tmp_path / "b"))
    assert bundle.problems == ()
    curves, problems = learning_curves(bundle)
    assert problems == ()
    assert {curve.kind for curve in curves} == {STEPS}
    assert len(curves[0].steps) == 20 + 2 * 4 * 50 - 1
    found = fit_learning(bundle)
    assert found.depth is not None
    assert found.depth.coefficients[0].slope.value is not None
    assert [left.run.depth for left in found.left_out] == [20, 32, 56]
    assert all(left.error < 0.2 for left in found.left_out)
    names = {table.name for table in fit(bundle).tables()}
    assert {"depth", "left_out_depths", "learning"} <= names


def test_a_damaged_table_of_steps_is_said_and_the_rest_is_fitted(tmp_path: Path):
    folder = with_losses(tmp_path / "b")
    bundle = open_bundle(folder)
    damaged = bundle.trials[0].folder / STEPS_FILE
    damaged.write_bytes(damaged.read_bytes()[:-20])
    found = fit_learning(bundle)
    assert len(found.points) == 2
    assert "does not match the sha256" in found.problems[0].what
    steps, _ = step_losses(bundle.trials[1])
    assert len(steps)


def test_losses_on_random_data_take_no_part(tmp_path: Path):
    found = fit_learning(open_bundle(with_losses(tmp_path / "b", "synthetic")))
    assert found.points == ()
    assert found.depth is None
    assert "nothing can be learned from random data" in found.notes[0]
