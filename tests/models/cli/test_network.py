"""``scalecurve network``: what is printed, and one line and exit code 2 for what cannot be."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve_models.networks import SHIPPED


def run(*arguments):
    return CliRunner().invoke(cli, ["network", *arguments])


def test_show_spells_the_arithmetic_out():
    result = run("show", "vgg16")
    assert result.exit_code == 0
    assert "(3*3*64)*64 = 36,864" in result.output
    assert "138,357,544" in result.output
    assert "99.2 %" in result.output


def test_show_as_json_and_csv():
    document = json.loads(run("show", "vgg16", "--flops", "lu", "--output", "json").output)
    (sums,) = document["totals"]["rows"]
    assert (sums["parameters"], sums["macs"], sums["flops"]) == (138_357_544, 15_470_264_320, 15_503_498_216)
    assert sums["convolution_share"] == pytest.approx(0.9908, abs=5e-5)
    layers = {row["layer"]: row for row in document["layers"]["rows"]}
    assert layers["conv1_2"]["weights_formula"] == "(3*3*64)*64 = 36,864"
    assert layers["pool5"]["receptive_field"] == "212x212"
    rows = list(csv.DictReader(io.StringIO(run("show", "alexnet", "--output", "csv").stdout)))
    assert rows[-1]["layer"] == "total"
    for column, sum_of_all in (("macs", 724_406_816), ("weights", 60_954_656), ("biases", 10_568)):
        assert sum(int(row[column] or 0) for row in rows[:-1]) == sum_of_all == int(rows[-1][column])


def test_outputs_and_padding_are_spelled_out():
    rows = {row["layer"]: row for row in json.loads(run("show", "alexnet", "-o", "json").output)["layers"]["rows"]}
    assert rows["conv1"]["output_formula"] == "floor((227 + 2*0 - 11) / 4) + 1 = 55"
    assert (rows["conv2"]["padding"], rows["conv2"]["output_formula"]) == ("2", "floor((27 + 2*2 - 5) / 1) + 1 = 27")
    rows = {row["layer"]: row for row in json.loads(run("show", "inception_v3", "-o", "json").output)["layers"]["rows"]}
    same = [row for row in rows.values() if row["padding"] == "same"]
    assert same
    assert all(row["output_formula"].startswith("ceil(") for row in same)


def test_convolutions_as_matrix_products():
    document = json.loads(run("show", "lenet5", "--matrix", "-o", "json").output)
    c1, c3, c5 = document["matrix"]["rows"]
    assert (c1["filters"], c1["patches"], c1["product"]) == ("6 x 25", "25 x 784", "6 x 784")
    assert (c1["macs"], c1["patch_values"]) == (6 * 25 * 784, 25 * 784)
    assert c3["copies"] == pytest.approx(150 * 100 / (14 * 14 * 6))
    assert c5["copies"] == 1
    totals = json.loads(run("show", "lenet5", "-o", "json").output)["totals"]["rows"]
    assert totals[0]["parameters"] == 61_706


def test_compare_and_list():
    rows = json.loads(run("compare", "resnet50", "resnet50_v1", "-o", "json").output)["totals"]["rows"]
    assert [row["parameters"] for row in rows] == [25_557_032, 25_557_032]
    assert rows[0]["macs"] > rows[1]["macs"]
    listed = json.loads(run("list", "-o", "json").output)["totals"]["rows"]
    assert [row["network"] for row in listed] == list(SHIPPED)


def test_inception():
    document = json.loads(run("inception", "-o", "json").output)
    naive, reduced = document["summary"]["rows"]
    assert (naive["output"], naive["flops"]) == ("32x32x672", 1_115_684_864)
    assert (reduced["output"], reduced["flops"]) == ("32x32x480", 354_418_688)
    assert reduced["saving"] == pytest.approx(0.682, abs=5e-4)
    assert "flops" not in document["layers"]["rows"][0]
    other = json.loads(run("inception", "--input", "28x28x192", "--filters", "64,128,32", "--reduce", "96,16",
                           "--project", "32", "-o", "json").output)  # fmt: skip
    assert other["summary"]["rows"][1]["output"] == "28x28x256"


def test_stack():
    document = json.loads(run("stack", "5", "5", "5", "--channels", "64", "-o", "json").output)
    last = document["stack"]["rows"][-1]
    assert (last["receptive_field"], last["weights"], last["single_weights"]) == ("13x13", 307_200, 692_224)
    assert "9x3" in run("stack", "5x1", "5x3").output


def test_inference_says_which_convention_its_bound_is_of():
    result = run("inference", "vgg16", "resnet50", "--device", "K80")
    assert "5,600 GFLOPS, with a multiply-add as two" in result.output
    assert "Paleo: forward pass of 64 images with" in result.output
    wrong = run("inference", "vgg16", "--device", "K80", "--flops", "mac")
    assert "the bound is twice too high" in wrong.output


def test_inference_has_the_time_of_an_image():
    options = ("inference", "vgg16", "--device", "K80", "--batch", "1")
    row = json.loads(run(*options, "-o", "json").output)["inference"]["rows"][0]
    assert row["practical_ms"] * row["practical"] == pytest.approx(1e3)
    assert "Paleo: forward pass of 1 image with" in run(*options).output


def test_other_input_sizes_files_and_conversion(tmp_path):
    assert "resnet50: ResNet-50, version 1.5, input 128x96x3" in run("show", "resnet50", "--input", "128x96").output
    converted = run("convert", "nin")
    file = tmp_path / "mine.yaml"
    file.write_text(converted.output)
    ours = json.loads(run("show", str(file), "-o", "json").output)
    assert ours["totals"]["rows"] == json.loads(run("show", "nin", "-o", "json").output)["totals"]["rows"]


def test_a_torch_module_by_its_name():
    pytest.importorskip("torch")
    result = run("show", "torch.nn:Identity", "--input", "8x8x3")
    assert result.exit_code == 0
    assert "Traced from torch.nn" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "vgg17"], "network 'vgg17' is unknown; did you mean 'vgg19'?"),
        (["show", "none.yaml"], "none.yaml: cannot be read"),
        (["show", "vgg16", "--flops", "flop"], "convention 'flop': expected one of mac, 2mac, lu"),
        (["show", "vgg16", "--input", "256x256"], "layer fc6: takes 25,088 features"),
        (["show", "vgg16", "--input", "0x0"], "shape '0x0': expected positive sizes"),
        (["show", "alexnet", "--input", "9x9"], "layer conv1: kernel 11x11 does not fit into 9x9"),
        (["show", "resnet50", "--input", "8x8x8x8"], "conv takes height x width x channels, got 8x8x8x8"),
        (["inception", "--filters", "1,2"], "--filters takes three numbers"),
        (
            ["inception", "--filters", "1,2,x"],
            "--filters: expected comma-separated integers such as 1,2,4, got '1,2,x'",
        ),
        (["inception", "--project", "-1"], "filters: project -1"),
        (["stack", "3x3x3"], "expected kernels such as 3 or 1x7"),
        (["stack", "0"], "shape '0': expected positive sizes"),
        (["inference", "vgg16", "--device", "K81"], "device 'K81' is unknown"),
        (["inference", "vgg16", "--device", "K80", "--batch", "-1"], "batch -1: expected an integer"),
        (["inference", "vgg16", "--device", "K80", "--ppp", "nan"], "ppp nan: expected a positive number"),
        (["show", "no.such:thing"], "no.such:thing: cannot be imported"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_showing_a_network_imports_no_torch_and_no_pandas():
    code = (
        "import sys; from scalecurve.cli import cli\n"
        "cli.main(['network', 'show', 'resnet18'], standalone_mode=False)\n"
        "bad = {'torch', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {bad}' if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_published_curves_come_with_their_sources_and_a_picture(tmp_path: Path):
    result = run("published", "Horovod", "--plot", str(tmp_path / "new"))
    assert result.exit_code == 0, result.stderr
    assert "arXiv:1802.05799" in result.output
    rows = json.loads(run("published", "horovod", "-o", "json").output)["published"]["rows"]
    at_128 = {row["network"]: row["efficiency"] for row in rows if row["workers"] == 128}
    assert at_128 == {"inception_v3": 0.88, "resnet101": 0.88}
    drawn = (tmp_path / "new" / "published.svg").read_text()
    assert "Horovod, P100, 25 Gbit/s Ethernet over TCP (resnet101)" in drawn
    assert (tmp_path / "new" / "published.png").stat().st_size > 10_000


def test_published_curves_of_all_networks_and_of_none():
    everything = json.loads(run("published", "-o", "json").output)["published"]["rows"]
    of_one = json.loads(run("published", "resnet50", "-o", "json").output)["published"]["rows"]
    assert of_one == [row for row in everything if row["network"] == "resnet50" or "resnet50" in row["title"]]
    refused = run("published", "lenet")
    assert refused.exit_code == 2
    assert "lenet: no published curve has it in its network or title; networks: alexnet, inception_v3" in refused.stderr
