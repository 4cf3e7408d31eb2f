"""Results of SuperBench; shapes are the tool's, numbers ours."""

import json
from pathlib import Path

import pytest

from scalecurve_importing.compose import compose
from scalecurve_importing.reading import SourceError
from tests.importing.test_collective_files import SIZES, bandwidths, read


def superbench(node: str, **more: float) -> str:
    """A line of results-summary.jsonl."""
    metrics: dict[str, object] = {"node": node}
    for size, time in SIZES.items():
        algbw, busbw = bandwidths(size, time, 8)
        values = {"time": time, "algbw": round(algbw, 2), "busbw": round(busbw, 2)}
        metrics |= {f"nccl-bw/allreduce_{size}_{what}:0": value for what, value in values.items()}
        metrics[f"nccl-bw/allgather_{size}_time:0"] = time
    return json.dumps(metrics | more)


def test_superbench(tmp_path: Path) -> None:
    lines = superbench("a") + "\n" + superbench("b") + "\n"
    name, readings = read(tmp_path, lines, "results-summary.jsonl", workers="8")
    assert (name, [reading.place for reading in readings]) == (
        "superbench",
        ["results-summary.jsonl, line 1, nccl-bw", "results-summary.jsonl, line 2, nccl-bw"],
    )
    assert readings[0].notes == ("SuperBench states neither the data type nor the library's version",)
    assert [row.time_us_median for row in readings[0].allreduce] == list(SIZES.values())
    with pytest.raises(SourceError, match="states no worker count; add a column workers, or --set workers=N"):
        read(tmp_path, lines, "results-summary.jsonl")
    with pytest.raises(SourceError, match=r"busbw is 1\.75 of algbw, and 1\.5 for an all-reduce over 4 workers"):
        read(tmp_path, lines, "results-summary.jsonl", workers="4")


def test_superbenchs_benchmarks_are_not_pooled(tmp_path: Path) -> None:
    """Those of one node and of all have different names, and each size a time of its own."""
    line = superbench("a").replace("nccl-bw/", "nccl-bw:nvlink/")
    both = json.dumps({**json.loads(line), **json.loads(superbench("a").replace("nccl-bw/", "nccl-bw:ib/"))})
    _, readings = read(tmp_path, both, "results-summary.jsonl", workers="8")
    assert [(reading.benchmark["benchmark"], len(reading.allreduce)) for reading in readings] == [
        ("nccl-bw:nvlink", 3),
        ("nccl-bw:ib", 3),
    ]
    with pytest.raises(SourceError, match=r"the benchmarks differ in benchmark \(nccl-bw:nvlink, nccl-bw:ib\)"):
        compose("x", readings)


def test_superbench_trains(tmp_path: Path) -> None:
    """A rank behind a metric is a copy of its own; without one, the throughput is of one GPU of a job."""
    distributed = {
        "model-benchmarks:resnet/pytorch-resnet50/fp16_train_throughput": 800.0,
        "model-benchmarks:resnet/pytorch-resnet50/fp16_train_step_time": 160.0,
    }
    line = json.dumps({"node": "a", **distributed})
    _, (reading,) = read(tmp_path, line, "results-summary.jsonl", workers="8", nodes="1")
    assert (reading.model, reading.factors, reading.global_batch) == ("resnet50", {"precision": "fp16"}, 1024)
    assert reading.throughput == pytest.approx(6400)
    alone = {f"resnet_models/pytorch-resnet50/throughput_train_float32:{rank}": 300.0 + rank for rank in range(2)}
    _, readings = read(tmp_path, json.dumps({"node": "a", **alone}), "results-summary.jsonl")
    assert [(r.workers, r.throughput, r.repetition) for r in readings] == [(1, 300, "0"), (1, 301, "1")]
