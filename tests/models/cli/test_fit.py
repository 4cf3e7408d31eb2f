"""``scalecurve fit``, ``recommend`` and the scaling models of ``predict`` from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve.cli import cli
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve_models.fit.points_file import fit_file
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.speed import speed
from tests.analysis.synthetic import Truth, experiment, write_bundle


def run(*args: object) -> Result:
    result = CliRunner().invoke(cli, [str(arg) for arg in args], prog_name="scalecurve")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = experiment(
        "verbs", workers=[1, 2, 4, 8], windows=2, steps_per_window=4, cost={"perWorkerHour": 0.9, "currency": "USD"}
    )
    return write_bundle(tmp_path_factory.mktemp("verbs"), spec, Truth(), tables=False)


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
@pytest.mark.parametrize("verb", ["fit", "recommend"])
def test_every_form_is_printed(folder: Path, verb: str, form: str):
    result = run(verb, folder, "--output", form)
    assert result.exit_code == 0, result.output
    if form == "json":
        assert {"fit": "models", "recommend": "candidates"}[verb] in json.loads(result.stdout)
    else:
        assert result.stdout


def test_fit_prints_the_best_model_alone_unless_asked(folder: Path):
    few, many = run("fit", folder), run("fit", folder, "--all")
    assert few.stdout.count("left out") < many.stdout.count("left out")
    document = json.loads(run("fit", folder, "--hold-out", "8", "-o", "json").stdout)
    held = [row for row in document["predicted"]["rows"] if row["how"] == "held out"]
    assert {row["workers"] for row in held} == {8}
    assert {row["model"] for row in held} >= {"linear", "amdahl", "gustafson", "usl", "ring", "overlap", "optimus"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fit", "{}", "--hold-out", "3"], "cannot hold out worker count 3: not measured (measured: 1, 2, 4, 8)"),
        (["fit", "{}", "--hold-out", "a"], "comma-separated integers"),
        (["fit", "nowhere"], "no such folder"),
        (["fit", "nowhere.csv"], "cannot be read: No such file"),
        (["recommend", "{}", "--workers", "0"], "worker counts must be at least 1"),
        (["recommend", "{}", "--deadline", "0"], "deadline must be a finite positive number"),
        (["recommend", "{}", "--epochs", "3"], "require a price: --prices or --per-worker-hour"),
        (["recommend", "{}", "--per-worker-hour", "1", "--currency", "dollars"], "--currency: got 'dollars'"),
    ],
)
def test_bad_input_ends_with_one_line_and_code_2(folder: Path, args: list[str], said: str):
    result = run(*(arg.format(folder) for arg in args))
    assert result.exit_code == EXIT_INPUT
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_recommend_says_its_answers_in_sentences(folder: Path):
    result = run("recommend", folder, "--workers", "16", "--workers-per-node", "16", "--deadline", "1", "--budget", "5")
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert " fastest for 1 million samples (" in first
    assert "16 not measured, predicted by" in result.stdout


def test_predict_scaling_shows_every_model_at_counts_that_were_not_run(folder: Path):
    document = json.loads(run("predict", "scaling", folder, "--workers", "8,64", "-o", "json").stdout)
    rows = document["predicted"]["rows"]
    assert {row["workers"] for row in rows} == {8, 64}
    assert {row["how"] for row in rows if row["workers"] == 64} == {"not measured"}
    assert {row["how"] for row in rows if row["workers"] == 8} == {"left out"}
    assert len(document["models"]["rows"]) == 14


def test_predict_collective_prices_every_algorithm():
    args = ["--bytes", "8,100000000", "--workers", "8", "--alpha-us", "3", "--gb-s", "360"]
    rows = json.loads(run("predict", "collective", *args, "-o", "json").stdout)["collective"]["rows"]
    times = {(row["algorithm"], row["bytes"]): row["us"] for row in rows}
    assert times["ring", 8] == pytest.approx(42, rel=1e-4)
    assert times["ring", 100_000_000] == pytest.approx(42 + 1.75 * 1e8 / 360e9 * 1e6, rel=1e-4)
    assert times["hierarchical", 8] == pytest.approx(times["ring", 8])
    further = ["--nodes", "2", "--out-gb-s", "25", "--alpha-out-us", "10"]
    over = json.loads(run("predict", "collective", *args, *further, "-o", "json").stdout)["collective"]["rows"]
    assert next(row["us"] for row in over if row["algorithm"] == "ring") == pytest.approx(140, rel=1e-4)


def test_predict_optimus_finds_the_best_workers_for_each_number_of_servers():
    args = ["--theta", "1.02,2.78,4.92,0,0.02", "--batch", "40", "--workers", "1,2,4,8,16", "--servers", "2,4"]
    loss = ["--loss", "0.21,1.07,0.07", "--target-loss", "0.1"]
    rows = json.loads(run("predict", "optimus", *args, *loss, "-o", "json").stdout)["optimus"]["rows"]
    assert [(row["servers"], row["workers"]) for row in rows if row["best"]] == [(2, 4), (4, 8)]
    steps = (1 / 0.03 - 1.07) / 0.21
    assert all(row["seconds"] == pytest.approx(steps / row["steps_per_s"], rel=1e-4) for row in rows)


def test_predict_roofline_says_what_limits():
    args = ["predict", "roofline", "--device", "K80", "--flops", "1e9", "-o", "json", "--bytes"]
    rows = [json.loads(run(*args, moved).stdout)["roofline"]["rows"][0] for moved in ("1e6", "1e9")]
    assert [row["limit"] for row in rows] == ["compute", "memory"]
    assert rows[1]["ms"] == pytest.approx(1e9 / 480e9 * 1e3, rel=1e-4)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["predict", "scaling", "{}", "--workers", "0"], "worker counts must be at least 1, got 0"),
        (["predict", "collective", "--bytes", "8", "--workers", "6", "--alpha-us", "1", "--gb-s", "1", "--nodes", "4"],
         "6 ranks cannot be spread evenly over 4 nodes"),
        (["predict", "optimus", "--theta", "1,2", "--workers", "1"], "expected five (sync) or four (async)"),
        (["predict", "optimus", "--theta", "1,x", "--workers", "1"], "--theta: expected comma-separated numbers"),
        (["predict", "optimus", "--theta", "1,1,1,1,1", "--workers", "1"], "needs the global batch M"),
        (["predict", "optimus", "--theta", "1,1,1,1", "--workers", "1", "--loss", "1,1,1"], "require each other"),
        (["predict", "optimus", "--theta", "1,1,1,1", "--workers", "1", "--loss", "1,1,1", "--target-loss", "0.5"],
         "flattens at 1 and never reaches the target of 0.5"),
        (["predict", "roofline", "--device", "K81", "--flops", "1", "--bytes", "1"], "device 'K81' is unknown"),
        (["predict", "roofline", "--device", "K80", "--flops", "0", "--bytes", "0"], "work must be positive"),
    ],
)  # fmt: skip
def test_predictions_of_nonsense_are_refused_in_one_line(folder: Path, args: list[str], said: str):
    result = run(*(arg.format(folder) for arg in args))
    assert result.exit_code == EXIT_INPUT
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def csv_of(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_scaling_points_of_a_file(tmp_path: Path):
    rows = [f"a,{n},{100 * (n - 0.1 * (n - 1))}" for n in (1, 2, 4, 8)]
    rows += [f"b,{n},{90.0 * n}" for n in (1, 2, 4)]
    path = csv_of(tmp_path / "p.csv", "# from elsewhere\nseries,workers,throughput\n" + "\n".join(rows) + "\n")
    document = json.loads(run("fit", path, "-o", "json").stdout)
    best = {row["series"]: row["model"] for row in document["models"]["rows"] if row["best"]}
    assert best == {}
    assert "a: not separable: gustafson, ring." in document["models"]["notes"]
    assert any(note.startswith("b: not separable: linear, ") for note in document["models"]["notes"])
    assert len(document["predicted"]["rows"]) == 5 * 3 + 5 * 2


def test_speeds_of_a_file_leave_unusable_rows_out_and_say_so(tmp_path: Path):
    theta = (1.02, 2.78, 4.92, 0.0, 0.02)
    rows = [f"{w},{p},{speed('sync', theta, w, servers=p, batch=40)},40" for w in (1, 2, 4, 8) for p in (1, 2, 4)]
    path = csv_of(
        tmp_path / "s.csv", "workers,servers,steps_per_s,batch\n2,0,1.0,40\n" + "\n".join(rows) + "\n4,2,0,40\n"
    )
    document = json.loads(run("fit", path, "-o", "json").stdout)
    values = [row["value"] for row in document["parameters"]["rows"]]
    assert values == pytest.approx([1.02, 2.78, 4.92, 0, 0.02], abs=1e-5)
    assert "2 rows ignored, with numbers that are not positive: line 2, 15." in document["predicted"]["notes"]


def test_losses_and_all_reduces_of_a_file(tmp_path: Path):
    steps = np.arange(100)
    text = "step,loss\n" + "\n".join(f"{k},{1 / (0.2 * k + 1) + 0.1}" for k in steps)
    document = json.loads(run("fit", csv_of(tmp_path / "l.csv", text), "-o", "json").stdout)
    assert [row["value"] for row in document["parameters"]["rows"]] == pytest.approx([0.2, 1, 0.1])
    sizes = [8 * 4**i for i in range(10)]
    rows = [f"{n},{s},{2 * (n - 1) * 3 + 2 * (n - 1) / n * s * 2e-4}" for n in (2, 4, 8) for s in sizes]
    path = csv_of(tmp_path / "a.csv", "workers,bytes,time_us\n" + "\n".join(rows))
    document = json.loads(run("fit", path, "-o", "json").stdout)
    best = [row["algorithm"] for row in document["collectives"]["rows"] if row["best"]]
    assert best == ["ring"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"unknown columns \(none\)"),
        ("a,b\n1,2\n", "unknown columns a,b; expected one of: workers,throughput"),
        ("workers,throughput\n1,2,3\n", ":2: expected 2 values, got 3"),
        ("workers,throughput\n1,x\n", "no row has only finite positive numbers"),
        ("workers,throughput\n1.5,3\n2,4\n", "must be integers"),
        ("workers,throughput,mode\n1,3,odd\n2,4,odd\n", "mode 'odd': expected one of strong, weak"),
        ("workers,throughput\n1,100\n", "need at least 2 different worker counts in a series, got 1"),
        ("workers,throughput\n4,100\n4,101\n2,nan\n", "need at least 2 different worker counts in a series, got 1"),
        ("workers,throughput,mode\n1,3,weak\n2,4,strong\n", ":3: mode 'strong' and 'weak' in one series"),
        ("step,loss\n1,2\n", "3 parameters need at least 3 different steps, got 1"),
        ("workers,servers,steps_per_s,kind\n1,1,2,odd\n", "kind 'odd': expected one of sync, async"),
        ("workers,bytes,time_us\n2,8,1\n", "needs at least"),
    ],
)
def test_files_that_cannot_be_fitted_are_refused_in_one_line(tmp_path: Path, text: str, said: str):
    with pytest.raises(FitError, match=said) as caught:
        fit_file(csv_of(tmp_path / "x.csv", text))
    assert "\n" not in str(caught.value)
    assert "x.csv" in str(caught.value)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(["workers,throughput", "step,loss", "workers,servers,steps_per_s", "workers,bytes,time_us"]),
    st.lists(st.lists(st.sampled_from(["1", "2", "8", "1e9", "-1", "0", "nan", "", "x"]), max_size=4), max_size=8),
)
def test_no_file_makes_a_traceback(tmp_path: Path, header: str, rows: list[list[str]]):
    path = csv_of(tmp_path / "any.csv", "\n".join([header, *(",".join(row) for row in rows)]))
    result = run("fit", path)
    assert result.exit_code in (0, EXIT_INPUT)
    assert "Traceback" not in result.output


def test_points_are_held_out_of_a_file_of_points(tmp_path: Path):
    """``--hold-out`` was read by nobody where BUNDLE was a file of points."""
    path = csv_of(tmp_path / "h.csv", "workers,throughput\n" + "\n".join(f"{n},{100 * n}" for n in (1, 2, 4, 8)))
    document = json.loads(run("fit", path, "--hold-out", "8", "-o", "json").stdout)
    held = [row for row in document["predicted"]["rows"] if row["workers"] == 8]
    assert {row["model"] for row in held} >= {"linear", "normal forms"}
    assert all(abs(row["error"]) < 0.01 for row in held if row["model"] == "linear")
    assert "cannot hold out 7 workers" in run("fit", path, "--hold-out", "7").stderr
    losses = csv_of(tmp_path / "l.csv", "step,loss\n1,2\n2,1\n")
    assert "--hold-out needs the columns workers,throughput" in run("fit", losses, "--hold-out", "2").stderr


DEPTHS = Path(__file__).parents[3] / "docs" / "evidence" / "predicted" / "optimus-depths.zip"


def test_models_of_the_training_loss_come_first_and_depths_are_drawn(tmp_path: Path):
    result = run("fit", DEPTHS, "--loss", "training", "--output", "json", "--plot", tmp_path / "new")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    models = document["loss_models"]["rows"]
    fitted = {
        (row["series"], row["workers"], row["parameter"]): row["value"]
        for row in document["learning_parameters"]["rows"]
    }
    assert len(models) == 6
    for row in models:
        assert [row[name] for name in ("b0", "b1", "b2")] == [
            fitted[row["series"], row["workers"], name] for name in ("b0", "b1", "b2")
        ]
    (sentence,) = document["left_out_depths"]["notes"]
    off = [row["error"] for row in document["left_out_depths"]["rows"] if row["depth"] == 20]
    assert f"{sum(off) / len(off) * 100:.1f} % at depth 20" in sentence
    assert sentence in result.stderr
    drawn = (tmp_path / "new" / "left-out-depths.svg").read_text()
    assert (tmp_path / "new" / "left-out-depths.png").stat().st_size > 10_000
    assert "Training loss" in drawn
    text = run("fit", DEPTHS, "--loss", "training").output
    assert text.startswith("Loss models: training loss\n")
    assert text.count("0: at its bound; coefficients are not negative") == 2  # each table that has zeros
    assert "Errors of every model" not in text
    assert "Errors of every model" in run("fit", DEPTHS, "--loss", "training", "--all").output


def test_without_three_depths_there_is_nothing_to_draw(folder: Path, tmp_path: Path):
    result = run("fit", folder, "--plot", tmp_path / "new")
    assert result.exit_code == EXIT_INPUT
    assert "--plot: expected losses of three depths or more" in result.stderr


def test_predict_optimus_draws_a_curve_for_each_number_of_servers(tmp_path: Path):
    args = ["predict", "optimus", "--theta", "1.02,2.78,4.92,0,0.02", "--batch", "40", "--workers", "1,2,4"]
    loss = ["--servers", "2,4", "--loss", "0.21,1.07,0.07", "--target-loss", "0.1"]
    timed = run(*args, *loss, "--plot", tmp_path / "time")
    assert "Time to the loss with parameter servers" in timed.output
    drawn = (tmp_path / "time" / "optimus.svg").read_text()
    assert all(text in drawn for text in ("2 servers", "4 servers", "Eq. 4 of Optimus: 154 steps / f", "θ2 w/p"))
    assert (tmp_path / "time" / "optimus.png").stat().st_size > 10_000
    assert "Speed with parameter servers" in run(*args, "--plot", tmp_path / "speed").output
