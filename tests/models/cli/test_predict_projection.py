"""``scalecurve predict EXPERIMENT --measured``, ``--record`` and ``--score``, on records of real H200s."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve_api.record.ledger import read_ledger

EVIDENCE = Path(__file__).parents[3] / "docs" / "evidence" / "h200"
RESNET, ALLREDUCE = EVIDENCE / "resnet50.zip", EVIDENCE / "allreduce.zip"
MEASURED_MS = 55.675  # weak, two workers: what resnet50.zip measured there
MEASURED_GB = 12.474


def run(*args: object) -> Result:
    result = CliRunner().invoke(cli, ["predict", *map(str, args)], prog_name="scalecurve")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "resnet50.yaml"
    experiment = open_bundle(RESNET).experiment
    assert experiment is not None
    path.write_text(json.dumps(experiment.wire()))
    return path


def test_two_h200s_from_one_and_its_all_reduces(file: Path, tmp_path: Path):
    result = run(
        *(file, "--measured", RESNET, "--measured", ALLREDUCE, "--workers", "2", "--record", tmp_path / "b"),
        *("-o", "json"),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    strong, weak = document["projection"]["rows"]
    assert strong["status"] == "refused"
    assert "batch 128 per worker" in strong["reason"]
    assert weak["step_ms"] == pytest.approx(MEASURED_MS, rel=0.05)
    assert weak["memory_gb"] == pytest.approx(MEASURED_GB, rel=0.1)
    assert weak["efficiency"] == pytest.approx(55.494 / weak["step_ms"], rel=0.01)
    reduced = [row for row in document["exchanges"]["rows"] if row["kind"] == "all-reduce"]
    assert [row["gb"] for row in reduced] == [pytest.approx(25_557_032 * 4 / 1e9)]
    ledger = read_ledger((tmp_path / "b" / "ledger.jsonl").read_bytes())
    assert [entry.event for entry in ledger.entries] == ["experiment", "predicted"]
    assert "no recorded prediction" in run(tmp_path / "b", "--score").stdout.lower()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--record", "b"), "require --measured"),
        (("--measured", RESNET, "--device", "H200"), "do not apply"),
        (("--score",), "needs a bundle"),
        (("--measured", ALLREDUCE), "no bundle of --measured has a valid trial of one worker"),
        (("--measured", RESNET, "--workers", "0"), "at least 1"),
        (("--measured", RESNET, "--link", "fast"), "fast"),
    ],
)
def test_bad_input_is_refused_in_a_line(file: Path, args: tuple[object, ...], says: str):
    result = run(file, *args)
    assert result.exit_code == EXIT_INPUT
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_a_bundle_is_not_projected():
    assert run(RESNET, "--measured", RESNET).exit_code == EXIT_INPUT
