"""Hostile and broken files: one line, whatever a number or a nesting in them is."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.cli import cli

STATED = ["--set", "mode=weak", "--set", "workers=2", "--set", "global_batch=8"]
TABLE = "gpus,images/sec,batch_per_gpu\n1,{0},32\n2,190,32\n"
RESULTS = '{{"node": "a", "pytorch-resnet50/fp32_train_throughput": {0}}}\n'
MLLOG = ':::MLLOG {{"key": "block_start", "time_ms": {0}, "value": null, "metadata": {{"step": 1}}}}\n'
NCCL = "# nThread 1 nGpus 2 minBytes 8 maxBytes 8\n#  Rank  0 Pid 1 on a device 0\n 8 2 float sum -1 {0} 1.0 1.0 0\n"
TORCHTITAN = "step: 1  loss: 1.0  memory: 1GiB  tps: {0}\nstep: 2  loss: 1.0  memory: 1GiB  tps: 5\n"
NUMBERS = ["inf", "nan", "-inf", "1e308", "1e-308", "1e400", "9" * 400, "-1", "0"]


def refused_or_read(folder: Path, name: str, text: str, *options: str) -> None:
    """A line on stderr with exit code 2, or a bundle; never a traceback."""
    (folder / name).write_text(text)
    into = folder / "out"
    ran = CliRunner().invoke(cli, ["import", str(folder / name), "--into", str(into), "--dry-run", *options])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exc_info
    assert ran.exit_code in (0, 2), ran.output
    if ran.exit_code:
        assert len(ran.stderr.strip().splitlines()) == 1
        assert ran.stderr.startswith("scalecurve: ")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", TABLE),
        ("table.json", '[{{"gpus": 1, "images/sec": {0}}}, {{"gpus": 2, "images/sec": 190}}]'),
        ("results-summary.jsonl", RESULTS),
        ("mllog.log", MLLOG * 2),
        ("nccl.txt", NCCL),
        ("titan.log", TORCHTITAN),
        ("step.log", "iter {0}: loss 1.0, time {0}ms\n" * 4),
    ],
)
def test_a_number_that_no_measurement_has(tmp_path: Path, name: str, text: str, number: str) -> None:
    refused_or_read(tmp_path, name, text.format(number), *STATED)


@pytest.mark.parametrize("name", ["deep.json", "results-summary.jsonl", "training_report.json", "deep.log"])
def test_a_nesting_without_end(tmp_path: Path, name: str) -> None:
    refused_or_read(tmp_path, name, "[" * 200_000)
    refused_or_read(tmp_path, name, '{"config":' * 50_000)
    refused_or_read(tmp_path, name, ":::MLLOG " + '{"key":' * 50_000)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_mutation_of_a_file_gives_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([TABLE.format(100), RESULTS.format(9), NCCL.format(7), TORCHTITAN.format(3)]))
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.sampled_from(["\0", "\x1b[31m", "9" * 50, "}", ",", "-", "\u202e", '"', "nan", "\n\n"]))
    refused_or_read(tmp_path_factory.mktemp("m"), "a.txt", whole[:cut] + junk + whole[cut:], *STATED)


def test_json_of_a_number_with_too_many_digits(tmp_path: Path) -> None:
    refused_or_read(tmp_path, "big.json", json.dumps([{"gpus": 1, "images/sec": 5}])[:-2] + "0" * 5000 + "}]", *STATED)
