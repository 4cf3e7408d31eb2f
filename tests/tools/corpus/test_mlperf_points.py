"""Logs become points: systems as they are described, units by proof, copies by their runs, notes for the rest."""

import json
from pathlib import Path

import pytest

from scalecurve_corpus.schema import NOT_STATED, CorpusError
from tests.tools.corpus.synthetic_round import APACHE, START, log, logs, system, write_checkout
from tools.corpus.imported import Imported
from tools.corpus.mlperf_points import import_results

RESULT = "Acme/results/8xH100/llama2_70b_lora/"


def imported(root: Path, files: dict[str, bytes]) -> Imported:
    return import_results(write_checkout(root / "round", files))


def test_a_point_with_its_system_and_runs(tmp_path: Path) -> None:
    files = {**logs(runs=2, step_s=0.5), f"{RESULT}scaling.json": b'{"scaling_factor": 1.02}', "LICENSE": APACHE}
    files[f"{RESULT}result_2.txt"] = log(start=START - 1000, step_s=0.25)
    read = imported(tmp_path, files)
    (point,), (source,) = read.corpus.points, read.corpus.sources
    assert (source.name, source.license, source.url) == ("round", "Apache-2.0", NOT_STATED)
    assert (point.source, point.submitter, point.system) == ("round", "Acme", "8xH100")
    assert (point.device, point.nodes, point.devices_per_node, point.workers) == ("H100", 1, 8, 8)
    assert point.software.split("; ") == ["A framework 1.0", "nccl_version 2.25"]
    assert point.interconnect == "NVLink"
    assert (point.unit, point.scaling, point.global_batch) == ("samples/s", 1.02, 8)
    assert point.rates == pytest.approx((32, 16, 16))
    assert point.batch_per_device == 1
    assert read.notes == ()


def test_one_figure_that_is_not_proved_leaves_the_point_without_a_unit(tmp_path: Path) -> None:
    files = logs(logged="throughput")
    files[f"{RESULT}result_1.txt"] = log(start=START + 1000, logged="throughput", figure=2.0)
    (point,) = imported(tmp_path, files).corpus.points
    assert (point.unit, point.rates) == (None, ())
    assert [run.relative for run in point.runs] == [16, 2, 16]
    assert "one device" in point.reason


def test_a_run_without_a_figure_does_not_refuse_the_others(tmp_path: Path) -> None:
    files = logs()
    files[f"{RESULT}result_1.txt"] = log(start=START + 1000, logged="")
    (point,) = imported(tmp_path, files).corpus.points
    assert [run.rate for run in point.runs] == [16, None, 16]


def test_step_times_of_some_runs_and_throughputs_of_others_are_not_mixed(tmp_path: Path) -> None:
    files = logs()
    files[f"{RESULT}result_1.txt"] = log(start=START + 1000, logged="throughput")
    (point,) = imported(tmp_path, files).corpus.points
    assert point.unit is None


def test_copies_under_another_name_are_noted(tmp_path: Path) -> None:
    read = imported(tmp_path, {**logs(), **logs("8xH100-POWER")})
    assert [point.aliases for point in read.corpus.points] == [("Acme/8xH100-POWER",)]
    assert len(read.notes) == 1


def test_a_folder_of_power_measurements_is_of_the_same_submitter(tmp_path: Path) -> None:
    files = {"LICENSE.md": APACHE, **logs(submitter="A"), **logs("other", "A-ac-power", start=START + 5000)}
    points = import_results(write_checkout(tmp_path / "round", files)).corpus.points
    assert [(point.submitter, len(point.runs)) for point in points] == [("A", 3)] * 2


def test_runs_of_another_batch_are_dropped_and_noted(tmp_path: Path) -> None:
    files = logs()
    files[f"{RESULT}result_9.txt"] = log(batch=16)
    read = imported(tmp_path, files)
    assert len(read.corpus.points[0].runs) == 3
    assert "global batch" in read.notes[0]


def test_a_broken_log_is_skipped_and_noted(tmp_path: Path) -> None:
    files = {**logs(), f"{RESULT}result_9.txt": b'x\n:::MLLOG {"key": "run_start"}\n'}
    read = imported(tmp_path, files)
    assert len(read.corpus.points[0].runs) == 3
    assert read.notes[0].startswith(f"{RESULT}result_9.txt:")


@pytest.mark.parametrize(
    "description",
    [
        b"{", b"[1]", system(nodes="many"), system(devices=0), system(nodes="-1"), system(nodes=10**9), b"\xff" * 10,
        system(nodes=True),
    ],
)  # fmt: skip
def test_a_description_without_a_device_count_is_noted(description: bytes, tmp_path: Path) -> None:
    files = {**logs(), **logs("other")}
    files["Acme/systems/other.json"] = description
    read = imported(tmp_path, files)
    assert [point.system for point in read.corpus.points] == ["8xH100"]
    assert read.notes[0].startswith("Acme/systems/other.json")


def test_a_missing_description_is_noted(tmp_path: Path) -> None:
    files = {**logs(), **logs("other")}
    del files["Acme/systems/other.json"]
    assert "missing" in imported(tmp_path, files).notes[0]


@pytest.mark.parametrize("factor", [0.5, "x", None, 99, [1]])
def test_a_factor_that_is_none_is_skipped(factor: object, tmp_path: Path) -> None:
    files = {**logs(), f"{RESULT}scaling.json": json.dumps({"scaling_factor": factor}).encode()}
    read = imported(tmp_path, files)
    assert read.corpus.points[0].scaling is None
    assert "scaling_factor" in read.notes[0]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="result_"):
        imported(tmp_path, {"README.md": b""})
