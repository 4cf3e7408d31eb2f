"""``scalecurve predict`` of an experiment before anything ran, and of a bundle by every model and by Paleo."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.hardware.devices import find_device, find_link
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point
from scalecurve_models.networks import find_network
from scalecurve_models.paleo.a_priori import predict_experiment
from scalecurve_models.paleo.scaling import Platform, predict_step
from tests.analysis.synthetic import Truth, experiment, write_bundle

ROOT = Path(__file__).parents[3]
H200 = ROOT / "tests" / "fixtures" / "resnet50-h200.zip"
RESNET = {"program": "torch", "model": "resnet50", "data": {"source": "synthetic", "shape": [3, 224, 224]}}


def run(*args: object) -> Result:
    result = CliRunner().invoke(cli, ["predict", *map(str, args)], prog_name="scalecurve")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    of = experiment("before", workload=RESNET, cost={"perWorkerHour": 0.9, "datasetSamples": 1_281_167, "epochs": 90})
    path = tmp_path / "before.yaml"
    path.write_text(of.model_dump_json(by_alias=True, exclude_none=True))
    return path


def test_an_experiment_is_predicted_before_anything_ran(file: Path):
    result = run(file, "--device", "K80_GPU", "--link", "ethernet20", "--workers", "8,64", "-o", "json")
    assert result.exit_code == 0, result.output
    table = json.loads(result.stdout)["expected"]
    rows = {(row["series"], row["workers"], row["model"]): row for row in table["rows"]}
    assert len(rows) == 2 * 2 * 3
    platform = Platform(find_device("K80_GPU"), find_link("ethernet20"))
    for mode, batch in (("strong", 256), ("weak", 64)):
        for workers in (8, 64):
            by_hand = predict_step(find_network("resnet50"), platform, batch=batch, workers=workers, scaling=mode)
            row = rows[mode, workers, "paleo"]
            assert row["step_ms"] == pytest.approx(by_hand.step_ms, rel=1e-5)
            assert row["seconds"] == pytest.approx(1_281_167 * 90 / by_hand.throughput, rel=1e-5)
            assert row["cost"] == pytest.approx(row["seconds"] / 3600 * workers * 0.9, rel=1e-5)
            ring, bound = rows[mode, workers, "paleo+ ring"], rows[mode, workers, "bound"]
            assert bound["step_ms"] <= ring["step_ms"] <= row["step_ms"]
            assert 0 < row["efficiency"] < 1
    assert any(note.startswith("Nothing was measured") for note in table["notes"])


def test_without_counts_the_experiments_own_are_taken(file: Path):
    rows = json.loads(run(file, "--device", "H200", "-o", "json").stdout)["expected"]["rows"]
    assert {row["workers"] for row in rows} == {1, 2, 4}
    assert all(row["efficiency"] == pytest.approx(1) for row in rows if row["workers"] == 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--device is required to predict from an experiment"),
        (("--device", "H20"), "device 'H20' is unknown; did you mean 'H200'"),
        (("--device", "H200", "--workers", "0"), "worker counts must be at least 1, got 0"),
        (("--device", "H200", "--workers", "a"), "expected comma-separated integers"),
        (("--link", "nvlink4"), "require --device"),
        (("--device", "H200", "--ppp-comp", "-1"), "ppp_comp"),
        (("--device", "H200", "--hold-out", "2"), "apply to bundles only"),
        (("--device", "H200", "--network", "nothing"), "network 'nothing' is unknown"),
        (("--device", "H200", "--software", "jax"), "--software 'jax': expected one of"),
    ],
)
def test_bad_input_is_one_clear_line(file: Path, options: tuple[str, ...], said: str):
    result = run(file, *options)
    assert result.exit_code == EXIT_INPUT
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"program": "allreduce"}, "program allreduce has no known network"),
        ({**RESNET, "model": "mlp"}, "model 'mlp' has no network"),
        ({**RESNET, "precision": "bf16"}, "no peak for 'bf16'"),
        ({**RESNET, "data": {"source": "synthetic", "shape": [3, 2]}}, "[channels, height, width]"),
    ],
)
def test_what_has_no_network_or_no_such_peak_is_refused(tmp_path: Path, workload: dict[str, object], said: str):
    modes = {"modes": ["weak"]} if workload["program"] == "allreduce" else {}
    path = tmp_path / "e.yaml"
    path.write_text(experiment("e", workload=workload, **modes).model_dump_json(by_alias=True, exclude_none=True))
    result = run(path, "--device", "K80")
    assert (result.exit_code, result.stderr.count("\n")) == (EXIT_INPUT, 1)
    assert said in result.stderr


def test_a_missing_path_is_one_line(tmp_path: Path):
    result = run(tmp_path / "nowhere", "--device", "H200")
    assert result.exit_code == EXIT_INPUT
    assert "no such experiment, bundle, points file or model (models: paleo" in result.stderr


def test_a_bundle_is_predicted_by_every_model(tmp_path: Path):
    of = experiment("b", workers=[1, 2, 4, 8], windows=1, steps_per_window=3, repetitions=2)
    folder = write_bundle(tmp_path / "b", of, Truth(), tables=False)
    found = json.loads(run(folder, "--workers", "8,16", "-o", "json").stdout)
    rows = found["predicted"]["rows"]
    assert {row["workers"] for row in rows} == {8, 16}
    assert {row["how"] for row in rows} == {"left out", "not measured"}
    assert {"amdahl", "usl", "ring", "overlap", "optimus"} <= {row["model"] for row in rows}


def test_paleo_on_a_bundle_is_blind(tmp_path: Path):
    """A run that is exactly Paleo's, at PPPs of its own: the calibrated model finds it, the given one does not."""
    truth = Platform(find_device("K80_GPU"), find_link("ethernet20"), ppp_comp=0.31, ppp_comm=0.72)

    def step(point: Point) -> float:
        assert point.batch_per_worker
        found = predict_step(find_network("resnet50"), truth, batch=point.batch_per_worker, workers=point.workers)
        return found.step_ms / 1e3

    of = experiment("p", workers=[1, 2, 4], workload=RESNET, windows=1, steps_per_window=3, repetitions=2)
    folder = write_bundle(tmp_path / "p", of, Truth(step_s=step, step_cv=0, repetition_cv=0), tables=False)
    result = run(folder, "--workers", "1,2,4", "--device", "K80_GPU", "--link", "ethernet20", "-o", "json")
    assert result.exit_code == 0, result.output
    rows = {(r["series"], r["workers"], r["model"]): r for r in json.loads(result.stdout)["predicted"]["rows"]}
    assert abs(rows["weak", 4, "paleo-1"]["error"]) < 1e-4
    assert rows["weak", 4, "paleo"]["error"] > 0.5
    assert ("weak", 1, "paleo-1") not in rows, "calibrated there, it cannot be blind there"
    assert rows["weak", 1, "paleo"]["error"] > 0.5


def test_nothing_is_predicted_from_a_point_that_was_held_out():
    result = run(H200, "--workers", "4", "--hold-out", "4", "--device", "H200", "--link", "nvlink4",
                 "-o", "json")  # fmt: skip
    rows = {(r["series"], r["model"]): r for r in json.loads(result.stdout)["predicted"]["rows"]}
    assert {row["how"] for row in rows.values()} == {"held out"}
    assert abs(rows["weak", "overlap"]["error"]) < 0.05
    assert abs(rows["strong", "overlap"]["error"]) < 0.05


def test_models_are_still_found_by_name():
    assert "Paleo" in run("paleo", "--help").output or "layer by layer" in run("paleo", "--help").output
    assert "EXPERIMENT|BUNDLE" in run("--help").output


def test_the_table_does_not_depend_on_the_experiments_order(file: Path):
    of = experiment("before", workload=RESNET, modes=["weak", "strong"])
    platform = Platform(find_device("H200"), find_link("nvlink4"))
    (table,) = predict_experiment(of, platform, [4, 2, 4])
    assert [row["workers"] for row in table.plain()["rows"]][:6] == [2, 2, 2, 4, 4, 4]


def test_strong_scaling_has_no_more_workers_than_samples():
    of = experiment("before", workload=RESNET, workers=[1, 2])  # 128 samples in all
    platform = Platform(find_device("H200"), find_link("nvlink4"))
    (table,) = predict_experiment(of, platform, [128, 129])
    counts = {row["series"]: set() for row in table.plain()["rows"]}
    for row in table.plain()["rows"]:
        counts[row["series"]].add(row["workers"])
    assert counts == {"strong": {128}, "weak": {128, 129}}
    assert "Strong scaling omits 129: more workers than samples in the global batch." in table.notes


def test_images_have_the_size_of_the_data(tmp_path: Path):
    """They had ImageNet's: ResNet-50 on CIFAR-10 was predicted 45 times too slow."""
    data = {"source": "cifar10", "path": "cifar"}
    of = experiment("small", workload={"program": "torch", "model": "resnet50", "data": data})
    predicted = _throughput(of, "paleo")
    stated = {"source": "synthetic", "shape": [3, 32, 32], "classes": 10}
    same = experiment("same", workload={"program": "torch", "model": "resnet50", "data": stated})
    assert predicted == _throughput(same, "paleo")
    by_hand = predict_step(find_network("resnet50", (32, 32, 3)), K80, batch=64)
    assert predicted["weak", 1] == pytest.approx(by_hand.throughput, rel=1e-5)


def test_every_instance_of_a_sample_is_computed():
    def predicted(instances: int) -> dict[tuple[str, int], float]:
        data = {"source": "digits", "instances": instances}
        return _throughput(experiment("m", workload={"program": "torch", "model": "resnet20", "data": data}), "paleo")

    one, four = predicted(1), predicted(4)
    assert all(3 < one[key] / four[key] <= 4 for key in one if key[1] == 1)
    assert all(1 < one[key] / four[key] <= 4 for key in one)


K80 = Platform(find_device("K80_GPU"), find_link("ethernet20"))


def _throughput(of: ScalingExperiment, model: str) -> dict[tuple[str, int], float]:
    """(series, workers) -> samples/s."""
    (table,) = predict_experiment(of, K80, [1, 2])
    rows = [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]
    return {(row["series"], row["workers"]): row["throughput"] for row in rows if row["model"] == model}


@pytest.mark.parametrize(
    ("source", "model"), [("cifar10", "resnet20_cifar"), ("fashion-mnist", "resnet18"), ("image-folder", "resnet50")]
)
def test_a_prediction_reads_no_data(tmp_path: Path, source: str, model: str):
    path = tmp_path / "x.yaml"
    path.write_text(
        "apiVersion: scalecurve.dev/v1alpha1\nkind: ScalingExperiment\nmetadata: {name: x}\n"
        "spec:\n  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 8}}\n"
        f"  workload: {{program: torch, model: {model}, data: {{source: {source}}}}}\n"
    )
    result = run(path, "--device", "H200", "--link", "nvlink4")
    assert (result.exit_code, result.stderr) == (0, "")
    path.write_text(path.read_text().replace("perWorker: 8", "perWorker: 0"))
    refused = run(path, "--device", "H200")
    assert (refused.exit_code, "perWorker" in refused.stderr) == (2, True)
    assert "data.path" not in refused.stderr


def test_a_data_set_of_known_size_gives_run_time_and_cost_of_the_training():
    data = {"source": "cifar10", "shape": [3, 299, 299]}
    workload = {"program": "torch", "model": "inception_v3", "data": data}

    def predicted(**more: object):
        (table,) = predict_experiment(experiment("k", workload=workload, **more), K80, [1, 8])
        return table.plain()["rows"], {column.name: column.title for column in table.columns}

    rows, titles = predicted(measure={"accuracy": {"epochs": 25}}, cost={"perWorkerHour": 0.9})
    assert titles["seconds"] == "Run time (full training)"
    for row in rows:
        assert row["seconds"] == pytest.approx(25 * 50_000 / row["throughput"])
        assert row["cost"] == pytest.approx(row["seconds"] / 3600 * row["workers"] * 0.9)
    rows, titles = predicted()
    assert titles["seconds"] == "Run time (one epoch)"
    assert {row["cost"] for row in rows} == {None}
    stated, _ = predicted(cost={"perWorkerHour": 0.9, "datasetSamples": 1000, "epochs": 2})
    assert stated[0]["seconds"] == pytest.approx(2000 / stated[0]["throughput"])
