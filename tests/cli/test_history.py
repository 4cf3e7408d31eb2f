"""``scalecurve history`` and ``scalecurve gate`` as their users call them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.cli import cli
from tests.timelines.past import write_past


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("past")
    write_past(folder, 4, factor=lambda session, workers: 0.9 if session == 3 else 1.0, session_sd=0.002)
    return folder


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_history_as_table_json_and_csv(past: Path, cache: Path):
    table = run("history", past)
    assert table.exit_code == 0
    assert "Experiments over time" in table.output
    assert (cache / "history.sqlite").exists()
    tree = json.loads(run("history", past, "-o", "json", "--experiment", "nightly").stdout)
    assert tree["schema"] == "scalecurve.dev/history/v1"
    assert (tree["bundles"], tree["bundlesRead"]) == (4, 0)
    assert len(tree["sessions"]["rows"]) == 4
    csv = run("history", past, "-o", "csv", "--by", "session").stdout.splitlines()
    assert csv[0].startswith("experiment,started,bundle,session,")
    assert len(csv) == 5
    assert "nightly" in run("history", past, "-o", "md", "--by", "machine", "--metric", "efficiency").stdout


def test_history_writes_a_site(past: Path, tmp_path: Path):
    ran = run("history", past, "--site", tmp_path / "site")
    assert ran.exit_code == 0
    assert (tmp_path / "site" / "index.html").exists()
    assert (tmp_path / "site" / "nightly.html").exists()


def test_history_refuses_bad_input(past: Path, tmp_path: Path):
    for words, message in (
        ([tmp_path / "none"], "no such folder"),
        ([past, "--experiment", "weekly"], "no bundle of weekly; experiments found: nightly"),
        ([past, "--by", "mood"], "--by: nothing was recorded as 'mood'; expected "),
    ):
        ran = run("history", *words)
        assert ran.exit_code == 2
        assert message in ran.stderr
    (tmp_path / "text").write_text("no catalog" * 100)
    ran = run("history", past, "--catalog", tmp_path / "text")
    assert ran.exit_code == 3
    assert "not a catalog" in ran.stderr


def test_gate_exits_by_what_it_found(past: Path, tmp_path: Path):
    bad, good = past / "nightly-003", past / "nightly-002"
    ran = run("gate", bad, "--history", past, "--markdown", tmp_path / "c.md", "--junit", tmp_path / "j.xml")
    assert ran.exit_code == 1
    assert "failed   history" in ran.output
    assert (tmp_path / "c.md").read_text().startswith("### ❌")
    assert "<failure" in (tmp_path / "j.xml").read_text()
    tree = json.loads(run("gate", good, "--baseline", past / "nightly-001", "-o", "json").stdout)
    assert (tree["passed"], tree["decided"], tree["falseAlarms"]) == (True, True, 0.025)
    assert tree["decidedBy"] == ["prior for sessions of one machine: 0.9 %, 4 degrees of freedom"]
    stated = run("gate", good, "--baseline", past / "nightly-001", "--session-sd", "0.5%", "-o", "json")
    assert json.loads(stated.stdout)["decidedBy"] == ["spread between sessions as stated: 0.5 %"]
    assert run("gate", good).exit_code == 2
    assert run("gate", good, "--expect", tmp_path / "none.yaml").exit_code == 2
    assert run("gate", good, "--tolerance", "5%", "--expect", "shipped").exit_code == 2


def test_gate_writes_expectations_that_the_next_run_is_held_against(past: Path, tmp_path: Path):
    file = tmp_path / "expected.yaml"
    assert run("gate", past / "nightly-000", "--write-expect", file).exit_code == 0
    assert str(tmp_path) not in file.read_text()
    assert "source: nightly-000" in file.read_text()
    passed = run("gate", past / "nightly-001", "--expect", file, "-o", "md")
    assert passed.exit_code == 0
    assert passed.output.startswith("### ✅")
    assert run("gate", past / "nightly-003", "--expect", file).exit_code == 1


def test_gate_without_a_bundle_says_what_it_will_see(past: Path):
    rows = json.loads(run("gate", "--baseline", past / "nightly-000", "-o", "json").stdout)["foreseen"]["rows"]
    assert all(0.01 <= row["smallest"] < row["at_once"] for row in rows)
    assert run("gate").exit_code == 2


def test_what_a_gate_has_nothing_to_hold_against_is_one_line(past: Path):
    bundle = past / "nightly-000"
    for words, said in (
        ([], ("nothing to compare the bundle with", "--baseline")),
        (["--expect", bundle / "experiment.yaml"], ("experiment.yaml: got a ScalingExperiment; expected",)),
    ):
        ran = run("gate", bundle, *words)
        assert ran.exit_code in (2, 3)
        assert [part for part in said if part not in ran.stderr] == []
        assert ran.stderr.count("\n") == 1
