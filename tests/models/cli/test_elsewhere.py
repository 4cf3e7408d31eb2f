"""Numbers from elsewhere through report, fit, predict and recommend: a published table, a lab's timings, nccl-tests."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from tests.importing.test_collective_files import printed

MARK = "imported, not checked by ScaleCurve"
DDL = {4: 1.0, 8: 2.0, 16: 3.9, 32: 7.9, 64: 15.5, 128: 30.5, 256: 60.6}
"""IBM PowerAI DDL with Caffe: speed-up over 4 P100, four in each machine; printed efficiency 0.95 at 256."""
LAB = {"T4": {2: "98:30", 4: "43:14"}, "V100": {4: "41:42", 8: "23:07"}}
FRUIT = {1: "11:02", 2: "5:19", 4: "3:25"}
"""A lab's minutes and seconds: 30 epochs of one network on two devices, and another network on T4."""


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout


def refusal(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    return result.stderr


def tables(*arguments: object) -> Any:
    return json.loads(run(*arguments, "-o", "json"))


@pytest.fixture(scope="module")
def ddl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ddl")
    rows = "".join(f"{n},{n // 4},{speedup},32,resnet50,P100\n" for n, speedup in DDL.items())
    (folder / "ddl.csv").write_text(f"gpus,nodes,speedup,batch_per_gpu,model,device\n{rows}")
    run("import", folder / "ddl.csv", "--into", folder / "ddl")
    return folder / "ddl"


def timed(folder: Path, name: str, device: str, times: dict[int, str], price: str) -> Path:
    rows = "".join(f"{n},{time},{device}\n" for n, time in times.items())
    (folder / f"{name}.csv").write_text(f"gpus,time (mm:ss),gpu\n{rows}")
    stated = ["--set", "mode=weak", "--set", f"price={price}"]
    run("import", folder / f"{name}.csv", "--into", folder / name, *stated)
    return folder / name


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("lab")
    prices = {"T4": "0.35", "V100": "2.48"}
    return {device: timed(folder, device.lower(), device, times, prices[device]) for device, times in LAB.items()}


def test_a_published_table_gives_its_printed_efficiency(ddl: Path) -> None:
    rows = tables("status", ddl)["status"]["rows"]
    efficiency = {row["workers"]: row["efficiency"]["value"] for row in rows}
    assert {n: round(value, 2) for n, value in efficiency.items()} == {
        4: 1.0, 8: 1.0, 16: 0.97, 32: 0.99, 64: 0.97, 128: 0.95, 256: 0.95,
    }  # fmt: skip


def test_a_published_table_is_fitted_and_predicts(ddl: Path) -> None:
    fits = tables("fit", ddl)
    assert fits["warnings"][-1] == MARK
    assert not any(row["best"] for row in fits["models"]["rows"])
    least = min((row for row in fits["models"]["rows"] if row["held_out"]), key=lambda row: row["held_out"])
    assert least["held_out"] < 0.03
    assert any("not separable: " in note and least["model"] in note for note in fits["models"]["notes"])
    failed = next(row for row in fits["models"]["rows"] if row["model"] == "overlap")
    assert failed["note"] == "needs step times, and only the throughput is known: import it with its batch"
    rows = tables("predict", ddl, "--workers", "512")["predicted"]["rows"]
    at_best = next(row for row in rows if row["model"] == least["model"])
    assert 90 < at_best["predicted"] < 128, "between 70 % and all of the ideal"
    recommended = tables("recommend", ddl)
    assert recommended["warnings"][-1] == MARK
    assert any(row["workers"] == 256 for row in recommended["recommendation"]["rows"] if row.get("goal") == "fastest")


def test_a_labs_run_times_have_costs(tmp_path: Path) -> None:
    bundle = timed(tmp_path, "fruit", "T4", FRUIT, "0.35")
    rows = tables("cost", bundle)["cost"]["rows"]
    assert {row["workers"]: round(row["epoch_s"]["value"]) for row in rows} == {1: 662, 2: 319, 4: 205}
    one = next(row for row in rows if row["workers"] == 1)
    assert one["epoch_cost"]["value"] == pytest.approx(662 / 3600 * 0.35)
    text = run("recommend", bundle, "--workers", "8")
    assert text.startswith(f"warning: {MARK}\n")
    assert "one run" in text
    rows = tables("predict", bundle, "--workers", "8")["predicted"]["rows"]
    assert any(row["predicted"] for row in rows), "it is superlinear, and yet counts: nothing shows that it cannot be"


def test_two_devices_in_one_fit_and_one_report(lab: dict[str, Path], tmp_path: Path) -> None:
    bundles = [lab["T4"], lab["V100"], "--label", "T4", "--label", "V100"]
    fits = tables("fit", *bundles)
    assert {row["experiment"] for row in fits["predicted"]["rows"]} == {"T4", "V100"}
    factor = next(row for row in fits["factors"]["rows"] if row["quantity"] == "throughput")
    assert (factor["factor"], factor["level"], factor["reference"]) == ("device", "V100", "T4")
    assert factor["ratio"] == pytest.approx((43 * 60 + 14) / (41 * 60 + 42)), "at 4 workers, which both have"
    for bundle in lab.values():
        assert MARK in run("recommend", bundle, "--workers", "16")
    run("report", *bundles, "--out", tmp_path, "--format", "json", "--format", "svg")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["tables"]["factors"]["rows"][0]["level"] == "V100"
    assert len(report["headlines"]) == 2
    assert (tmp_path / "plots" / "throughput.svg").exists()


def test_nccl_tests_through_every_verb(tmp_path: Path) -> None:
    files = []
    for ranks in (2, 4, 8):
        ring = {2**e: (ranks - 1) * (5 + 2 * 2**e / ranks / 2e5) for e in range(10, 28, 2)}
        text = printed(each=ranks, times=ring)
        (tmp_path / f"{ranks}.txt").write_text(text)
        files.append(tmp_path / f"{ranks}.txt")
    bundle = tmp_path / "nccl"
    run("import", *files, "--into", bundle)
    rows = tables("allreduce", bundle)["allreduce"]["rows"]
    assert {row["workers"] for row in rows} == {2, 4, 8}
    assert MARK in tables("allreduce", bundle)["warnings"]
    fits = tables("fit", bundle)
    assert "ring" in {row["algorithm"] for row in fits["collectives"]["rows"] if row["best"]}
    run("report", bundle, "--out", tmp_path / "out", "--format", "json")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["warnings"][0] == MARK
    assert "allreduce" in report["tables"]
    predicted = tables("predict", bundle, "--workers", "8,6,16")["collective_at_counts"]["rows"]
    at = {(row["workers"], row["bytes"]): row for row in predicted}
    assert at[6, 1 << 26]["predicted_us"] == pytest.approx(0.5 * 5 * (5 + 2 * 2**26 / 6 / 2e5), rel=0.05), "in place"
    assert at[8, 1 << 26]["how"] == "left out"
    assert [row["how"] for row in predicted if row["workers"] == 16] == ["refused"]
    text = run("recommend", bundle)
    assert text.startswith(f"warning: {MARK}\nstrong: on 2 workers send at least ")
    assert "limits" in refusal("recommend", bundle, "--deadline", "1")
    assert "--device and --hold-out apply to trainings" in refusal("predict", bundle, "--hold-out", "8")


def test_too_few_message_sizes_are_the_reason(tmp_path: Path) -> None:
    (tmp_path / "2.txt").write_text(printed(each=2))
    run("import", tmp_path / "2.txt", "--into", tmp_path / "b")
    why = "collectives: needs at least 4 message sizes, got 3"
    assert why in refusal("predict", tmp_path / "b")
    assert why in refusal("recommend", tmp_path / "b")
    assert why in run("fit", tmp_path / "b")


def test_labels_are_checked(lab: dict[str, Path]) -> None:
    for labels in (["--label", "a"], ["--label", "a", "--label", "a"]):
        result = CliRunner().invoke(cli, ["fit", str(lab["T4"]), str(lab["V100"]), *labels])
        assert result.exit_code == 2
        assert "expected a different name for each of 2 bundles" in result.stderr
