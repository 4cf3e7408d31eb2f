"""``scalecurve predict paleo``: the rows of its JSON, its tables, and one line and exit code 2 for what cannot be."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli

REFERENCE = Path(__file__).parents[2] / "reference"


def run(*arguments):
    return CliRunner().invoke(cli, ["predict", "paleo", *arguments])


def rows(*arguments):
    result = run(*arguments, "--output", "json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["rows"]


def test_json_has_rows_that_are_those_of_the_authors_code():
    given = csv.DictReader((REFERENCE / "paleo_authors_steps.csv").read_text(encoding="utf-8").splitlines())
    for row in [row for row in given if row["network"] == "inception_v3"][:6]:
        options = [f"--{name.replace('_', '-')}={row[name]}" for name in (
            "network", "device", "link", "batch", "scaling", "workers", "ppp_comp", "ppp_comm", "revision",
        )]  # fmt: skip
        (got,) = rows(*options, *(["--pipeline"] if row["pipeline"] == "1" else []))
        for key in ("forward_ms", "backward_ms", "update_ms"):
            assert got[key] == pytest.approx(float(row[key]), rel=1e-8)
        wanted = {name: float(row[f"{name}_ms"]) for name in ("one_to_all", "tree", "butterfly")}
        assert got["communication_ms"] == pytest.approx(wanted, rel=1e-8)
        step = got["forward_ms"] + got["backward_ms"] + got["update_ms"] + got["communication_ms"]["tree"]
        assert got["step_ms"] == pytest.approx(step)


def test_the_issues_command():
    got = rows(
        "--network", "inception_v3", "--device", "K80", "--link", "ethernet20", "--batch", "128", "--scaling", "strong",
        "--workers", "1,2,4,8", "--ppp-comp", "0.62", "--ppp-comm", "0.72", "--revision", "head",
    )  # fmt: skip
    assert [row["workers"] for row in got] == [1, 2, 4, 8]
    assert all(row["throughput"] == pytest.approx(128e3 / row["step_ms"]) for row in got)


def test_tables_of_every_kind():
    common = ["--device", "K80", "--batch", "64"]
    for arguments, text in [
        (["--network", "vgg16", *common, "--workers", "1,8"], "Paleo: vgg16, weak scaling"),
        (["--network", "alex_v2_4gpu", *common, "--parallel", "model"], "branches in sequence (ms)"),
        (
            ["--network", "alex_v2_4gpu", *common, "--parallel", "hybrid", "--workers", "4"],
            "Paleo: alex_v2_4gpu, hybrid",
        ),
        (
            ["--network", "vgg16", *common, "--workers", "1,8", "--plus", "--overlap", "3"],
            "Paleo+ is not part of Paleo",
        ),
    ]:
        result = run(*arguments)
        assert result.exit_code == 0, result.stderr
        assert text in result.output
        assert run(*arguments, "-o", "csv").exit_code == run(*arguments, "-o", "md").exit_code == 0


STRONG = ("--network=inception_v3", "--device=K80_GPU", "--link=pcie3", "--batch=128", "--scaling=strong")


def test_run_time_and_cost_stand_beside_throughput():
    priced = ("--workers=1,8", "--per-worker-hour=0.9", "--dataset-samples=50000", "--epochs=10")
    for got in rows(*STRONG, *priced) + rows(*STRONG, *priced, "--plus"):
        assert got["work"] == "full training"
        assert got["seconds"] == pytest.approx(500_000 / got["throughput"])
        assert got["cost"] == pytest.approx(got["seconds"] / 3600 * got["workers"] * 0.9)
    (unpriced,) = rows(*STRONG)
    assert (unpriced["work"], unpriced["cost"]) == ("1 million samples", None)
    assert "cost (full training) (USD)" in run(*STRONG, *priced).output
    assert "Price: paleo_demo" in run(*STRONG, "--prices", "paleo_demo").output


def test_the_prediction_is_drawn(tmp_path: Path):
    priced = ("--workers=1,2,4,8", "--per-worker-hour=0.9", "--dataset-samples=50000", "--epochs=10")
    result = run(*STRONG, *priced, "--plot", str(tmp_path / "new"))
    assert "Paleo: inception_v3, strong scaling" in result.output
    drawn = (tmp_path / "new" / "paleo.svg").read_text()
    labels = ("Throughput", "Speed-up", "Run time of full training", "Cost of full training", "USD")
    assert all(label in drawn for label in labels)
    split = ("--network=alex_v2_4gpu", "--device=K80_GPU", "--batch=128", "--workers=1,2,4", "--plot", str(tmp_path))
    assert "Speed-up is relative to one machine" in run(*split, "--parallel", "model").output
    assert "Cost of" not in (tmp_path / "paleo.svg").read_text()
    assert "--plot: does not apply to --parallel hybrid" in run(*split, "--parallel", "hybrid").stderr


def test_a_shape_is_that_of_experiments():
    named = ("--network=resnet50", "--device=K80", "--batch=64")
    assert rows(*named, "--shape", "3,64,32") == rows(*named, "--input", "64x32x3")
    assert "kernel 3x3 does not fit into 1x1" in run(*STRONG, "--shape", "3,32,32").stderr


def test_plus_adds_to_the_rows_and_leaves_paleos_parts():
    common = ["--network", "resnet50", "--device", "H200", "--link", "nvlink4", "--batch", "128", "--workers", "1,4"]
    plain, plus = rows(*common), rows(*common, "--plus", "--latency-us", "20", "--overlap", "2")
    assert [row["forward_ms"] for row in plain] == [row["forward_ms"] for row in plus]
    assert plus[1]["model"] == "paleo+"
    assert plus[1]["step_ms"] == pytest.approx((plus[1]["step_ms"] - plus[1]["exposed_ms"]) + plus[1]["exposed_ms"])
    assert plus[1]["exchange_ms"] > 6 * 20 / 1e3


def test_model_and_hybrid_rows():
    (own,) = rows("--network", "alex_v2_2gpu", "--device", "K20", "--batch", "32", "--parallel", "model")
    assert own["workers"] == 2
    assert own["forward"]["lower_ms"] <= own["forward"]["upper_ms"]
    parts = rows(
        "--network", "alex_v2_2gpu", "--device", "K20", "--batch", "32", "--parallel", "hybrid", "--workers", "2"
    )
    assert [part["part"] for part in parts] == ["data", "model"]


def test_model_parallelism_has_a_row_for_each_number_of_workers():
    split = ("--network", "alex_v2_4gpu", "--device", "K80_GPU", "--link", "pcie3", "--parallel", "model")
    got = rows(*split, "--batch", "128", "--workers", "1,2,4")
    assert [row["workers"] for row in got] == [1, 2, 4]
    assert got[0]["speedup"] == 1
    for row in got:
        assert row["step_ms"] == pytest.approx(row["forward"]["lower_ms"] + row["backward"]["lower_ms"])
        assert row["speedup"] == pytest.approx(got[0]["step_ms"] / row["step_ms"])
        assert row["throughput"] == pytest.approx(128e3 / row["step_ms"])
    assert 1 < got[1]["speedup"] < got[2]["speedup"] < 4
    two = rows(*split[2:], "--network", "alex_v2_2gpu", "--batch", "128")
    assert two[0]["step_ms"] == pytest.approx(got[1]["step_ms"])


def test_a_network_on_one_device_runs_its_branches_in_sequence():
    one = ("--network", "inception_v3", "--device", "K80", "--batch", "8", "--parallel", "model")
    (row,) = rows(*one)
    assert row["step_ms"] == pytest.approx(row["forward"]["upper_ms"] + row["backward"]["upper_ms"])
    assert "no layer is split, so 2 devices compute as one" in run(*one, "--workers", "2").stderr


def test_measured_steps_calibrate(tmp_path):
    file = tmp_path / "steps.csv"
    file.write_text("batch,step_ms\n32,881.54\n")
    result = run("--network", "vgg16", "--device", "K80", "--batch", "32", "--measured", str(file))
    assert result.exit_code == 0
    assert "PPP for compute: 0.694" in result.output
    (row,) = rows("--network", "vgg16", "--device", "K80", "--batch", "32", "--measured", str(file))
    assert row["step_ms"] == pytest.approx(881.54)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "vgg17"}, "network 'vgg17' is unknown"),
        ({"device": "K81"}, "device 'K81' is unknown"),
        ({"link": "smoke"}, "link 'smoke' is unknown"),
        ({"batch": "0"}, "batch 0: expected an integer from 1"),
        ({"batch": "-4"}, "batch -4: "),
        ({"workers": "0"}, "workers 0: "),
        ({"workers": "1,,2"}, "--workers: expected comma-separated integers such as 1,2,4, got '1,,2'"),
        ({"workers": "-1"}, "--workers: expected comma-separated integers such as 1,2,4, got '-1'"),
        ({"workers": ""}, "--workers: expected comma-separated integers such as 1,2,4, got ''"),
        ({"scaling": "wide"}, "scaling 'wide': expected one of strong, weak"),
        ({"revision": "old"}, "revision 'old': expected one of head, release"),
        ({"ppp-comp": "0"}, "ppp_comp 0.0: expected a positive number"),
        ({"ppp-comm": "nan"}, "ppp_comm nan: expected a positive number"),
        ({"software": "torch"}, "--software 'torch': expected one of peak, tensorflow, mxnet, caffe"),
        ({"precision": "bf16"}, "device K80: no peak for 'bf16'"),
        ({"parallel": "pipeline"}, "--parallel 'pipeline': expected one of data, model, hybrid"),
        ({"shape": "3,32"}, "--shape: expected channels, height and width such as 3,224,224, got '3,32'"),
        ({"shape": "3,32,0"}, "--shape: expected channels, height and width such as 3,224,224, got '3,32,0'"),
        ({"epochs": "3"}, "--dataset-samples, --epochs and --currency require a price"),
        ({"overlap": "2"}, "--overlap requires --plus"),
        ({"measured": "none.csv"}, "none.csv: cannot be read"),
        ({"network": "alex_v2_8gpu", "parallel": "model"}, "8 splits: the authors' code supports at most"),
        ({"network": "resnet50_paleo", "revision": "release"}, "use revision head"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(change, message):
    options = {"network": "vgg16", "device": "K80", "batch": "64"} | change
    result = run(*[part for name, value in options.items() for part in (f"--{name}", value)])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_cyclic_graph_of_paleos_json(tmp_path):
    layer = {"type": "Convolution", "filter": [3, 3, -1, 4], "strides": [1, 1, 1, 1], "padding": "SAME"}
    file = tmp_path / "loop.json"
    file.write_text(json.dumps({"name": "loop", "layers": {
        "data": {"parents": [], "type": "Input", "tensor": [1, 8, 8, 3]},
        "a": {"parents": ["b"], **layer}, "b": {"parents": ["a"], **layer},
    }}))  # fmt: skip
    result = run("--network", str(file), "--device", "K80", "--batch", "1")
    assert result.exit_code == 2
    assert result.stderr == f"scalecurve: {file}: the graph has a cycle: a <- b <- a\n"


def test_help_lists_the_models_and_imports_none():
    result = CliRunner().invoke(cli, ["predict", "--help"])
    assert result.exit_code == 0
    assert "paleo" in result.output


def test_steps_of_several_workers_are_set_beside_paleo(tmp_path: Path):
    """TensorFlow's published K80 steps of ResNet-50; the row of one worker is where the PPP came from."""
    steps = ["batch,step_ms,workers", "64,1242.72,1", "64,1306.12,2", "64,1333.33,8"]
    (tmp_path / "k80.csv").write_text("\n".join(steps) + "\n")
    result = CliRunner().invoke(
        cli,
        ["predict", "paleo", "--network", "resnet50", "--device", "K80_GPU", "--link", "pcie3", "--batch", "64",
         "--measured", str(tmp_path / "k80.csv"), "--per-worker-hour", "0.9", "-o", "md"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = [line.split(" | ") for line in result.output.split("Paleo vs. measured")[1].splitlines()[4:7]]
    assert [row[0].strip("| ") for row in rows] == ["1", "2", "8"]
    assert rows[0][6] == "-0.0 %" or rows[0][6] == "0.0 %"
    assert rows[2][6] == "2.9 %"
    # 1e6 samples at 384/s on 8 workers at 0.90.
    assert rows[2][9] == "5.208"
