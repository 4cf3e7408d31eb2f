"""What is not imported is named for what it is, and no log is taken for JSON."""

import json
from pathlib import Path

import pytest

from scalecurve_importing.import_bundle import format_of
from scalecurve_importing.reading import SourceError

GAUGE = {"metric": {"__name__": "tokens_per_second", "pod": "w-0"}, "values": [[1, "7"], [2, "8"]]}
ANSWER = {"status": "success", "data": {"resultType": "matrix", "result": [GAUGE]}}
TRACES = (
    {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": []},
    [{"ph": "X", "ts": 1, "name": "aten::mm"}],
    {"displayTimeUnit": "ms", "traceEvents": [{"ph": "M"}]},
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(ANSWER), "is an answer of Prometheus: ask it for one number a run"),
        (json.dumps(ANSWER, indent=2), "is an answer of Prometheus"),
        (
            json.dumps({"data": {"resultType": "vector", "result": []}, "status": "success"}),
            "is an answer of Prometheus",
        ),
        ('{"status": "error", "data": null}', "is an answer of Prometheus"),
        *((json.dumps(trace), "is a trace (Chrome's or Kineto's format)") for trace in TRACES),
        (
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n",
            "is a manifest for Kubernetes, and no result: import what",
        ),
        (
            "apiVersion: x\nkind: JobSet\nspec: {}\n",
            "is a manifest for Kubernetes, and no result: import what the job printed "
            "(kubectl logs JOB > out.txt), or measure it",
        ),
        ("apiVersion: x\nkind: TFJob\nspec: {}\n", "is a manifest for Kubernetes"),
        ("apiVersion: x\nkind: ScalingExperiment\n", "is an experiment, and no result: run it"),
        ("PK\x03\x04xl/workbook.xml", "is a packed file: unpack it, or save a spreadsheet as CSV"),
        (" \n\n", "is empty"),
    ],
)
def test_it_is_named_for_what_it_is(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(SourceError) as refused:
        format_of(tmp_path / "file")
    assert str(refused.value).startswith(f"{tmp_path / 'file'}: {said}")


@pytest.mark.parametrize(
    "line",
    [
        "[2026-02-02 09:00:00,100] [INFO] [engine.py:1] fast",
        "[rank 0] [INFO] nothing",
        "{'loss': 1.5, 'epoch': 0.5}",
        "[100/400] Elapsed 3s",
        "{0: 'cat', 1: 'dog'}",
        "[INFO] hello",
    ],
)
def test_a_bracket_is_no_json(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.log").write_text(f"\n{line}\n" * 3)
    with pytest.raises(SourceError) as refused:
        format_of(tmp_path / "train.log")
    assert f"its format was not recognized, beginning {line[:60]!r}; state it with --format (" in str(refused.value)
    assert "read a log's lines with --pattern, or make a CSV file of it, a row for each run" in str(refused.value)


@pytest.mark.parametrize("text", ['[{"gpus": 1}]', '\n {"gpus": 1}\n{"gpus": 2}', "[\n  {}\n]", "{}"])
def test_json_is_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs").write_text(text)
    assert format_of(tmp_path / "runs") == "json"
