"""`scalecurve import`: numbers of others through every verb, marked as imported in all of them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli

MARK = "imported, not checked by ScaleCurve"
LAB = """gpus,gpu,images/sec,batch_per_gpu,nodes
1,T4,101.5,32,1
1,T4,99.5,32,1
2,T4,190,32,1
4,T4,350,32,1
1,V100,300,32,1
2,V100,580,32,1
4,V100,1100,32,1
8,V100,2010,32,2
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def imported(folder: Path, text: str, *options: object, name: str = "lab") -> Path:
    source, bundle = folder / f"{name}.csv", folder / name
    source.write_text(text)
    result = run("import", source, "--into", bundle, *options)
    assert result.exit_code == 0, result.output
    assert MARK in result.output
    return bundle


@pytest.mark.parametrize("verb", ["status", "cost", "fit", "predict", "recommend", "diagnose", "verify"])
def test_every_verb_takes_it_and_says_what_it_is(tmp_path: Path, verb: str) -> None:
    bundle = imported(tmp_path, LAB)
    result = run(verb, bundle)
    assert result.exit_code == 0, result.output
    assert ("imported from lab.csv" if verb == "verify" else MARK) in result.output


@pytest.mark.parametrize("verb", ["training", "allreduce"])
def test_a_verb_that_it_has_nothing_for_shows_no_number(tmp_path: Path, verb: str) -> None:
    result = run(verb, imported(tmp_path, LAB))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""


def test_a_report_marks_every_point(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    result = run("report", bundle, "--out", tmp_path / "out", "--format", "json", "--format", "md")
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["warnings"][0] == MARK
    assert all(MARK in line for line in report["headlines"])
    assert {row["unproved"] for row in report["tables"]["scaling"]["rows"]} == {"Imported"}
    assert any("nothing about these runs was checked" in line for line in report["methods"])
    assert not any("barrier" in line for line in report["methods"])


def test_points_count_without_a_flag(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    fits = json.loads(run("fit", bundle, "-o", "json").stdout)
    assert {row["workers"] for row in fits["predicted"]["rows"] if row["series"] == "weak device=V100"} == {1, 2, 4, 8}
    assert fits["warnings"][-1] == MARK


def test_it_packs_and_compares(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    assert run("pack", bundle, "--out", tmp_path / "lab.zip").exit_code == 0
    again = imported(tmp_path, LAB.replace("2010", "1500"), name="later")
    result = run("compare", tmp_path / "lab.zip", again)
    assert MARK in result.output
    assert "Imported" not in result.stderr


def test_a_changed_record_is_noticed(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    record = next((bundle / "trials").iterdir()) / "trial.json"
    record.write_text(record.read_text().replace('"wall_s": ', '"wall_s": 1').replace('"wallS": ', '"wallS": 1'))
    result = run("verify", bundle)
    assert result.exit_code == 1
    assert "does not hold" in result.output


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "lab.csv"
    source.write_text(LAB)
    result = run("import", source, "--into", tmp_path / "lab", "--dry-run", "-o", "json")
    document = json.loads(result.stdout)
    assert (document["bundle"], len(document["imported"]["rows"])) == (None, 8)
    assert document["units"] == ["images/sec: samples/s over all workers"]
    assert not (tmp_path / "lab").exists()


def test_it_overwrites_nothing(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    result = run("import", tmp_path / "lab.csv", "--into", bundle)
    assert result.exit_code == 2
    assert result.stderr == f"scalecurve: {bundle}: exists and is not an empty folder; choose another --into\n"


def test_an_imported_experiment_is_not_run(tmp_path: Path) -> None:
    bundle = imported(tmp_path, LAB)
    result = run("validate", bundle / "experiment.yaml")
    assert result.exit_code == 2
    assert "a program that can run; imported numbers were measured elsewhere" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "gpus=4"], "--set 'gpus': unknown field"),
        (["--set", "workers"], "--set 'workers': expected NAME=VALUE"),
        (["--format", "xlsx"], "--format: got 'xlsx'"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: list[str], message: str) -> None:
    source = tmp_path / "lab.csv"
    source.write_text(LAB)
    result = run("import", source, "--into", tmp_path / "lab", *options)
    assert result.exit_code == 2
    assert message in result.stderr
