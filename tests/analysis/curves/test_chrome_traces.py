"""Traces of torch.profiler from elsewhere: times worked out by hand, and what is no trace of one rank."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scalecurve.cli import cli
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.curves.chrome_traces import NO_STEPS, TraceError, read_traces

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def kernel(name: str, start: float, end: float, category: str = "kernel", **arguments: Any) -> dict[str, Any]:
    """An event on GPU 0, in microseconds."""
    return {
        "ph": "X", "cat": category, "name": name, "ts": start, "dur": end - start, "args": {"device": 0, **arguments},
    }  # fmt: skip


def events(late: float = 0.0) -> list[dict[str, Any]]:
    """110 us: 65 computing, two kernels at once; 30 exposed and 10 overlapped communication; 10 copies; 5 idle.

    The all-reduce begins ``late`` microseconds later.
    """
    return [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "ts": 0, "dur": 50},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "ts": 50, "dur": 50},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": -5, "dur": 500},
        {"ph": "M", "name": "process_name"},
        kernel("sm90_gemm", 0, 40),
        kernel("elementwise", 30, 60),
        kernel(NCCL, 50 + late, 90, **{"In msg nelems": 1_000_000, "dtype": "BFloat16"}),
        kernel("Memcpy HtoD (Pageable -> Device)", 95, 105, "gpu_memcpy"),
        kernel("elementwise", 105, 110),
    ]


def write(file: Path, listed: list[Any], **about: Any) -> Path:
    file.write_text(json.dumps({"traceEvents": listed, "distributedInfo": about}))
    return file


def test_time_is_split_as_worked_out_by_hand(tmp_path: Path) -> None:
    point, notes = read_traces([write(tmp_path / "a.json", events(), rank=0, world_size=4)])
    (trace,) = point.traces
    assert (point.point.workers, trace.steps, trace.wall_ns) == (4, 2, 110_000)
    assert (trace.computing_ns, trace.copy_ns, trace.exposed_ns, trace.idle_ns) == (65_000, 10_000, 30_000, 5_000)
    assert trace.communication_ns - trace.exposed_ns == 10_000
    (call,) = trace.collectives
    assert (call.name, call.calls, call.bytes, call.ns, call.last) == ("all-reduce", 1, 2_000_000, 40_000, None)
    assert NO_STEPS not in notes


def test_the_table_has_shares_of_the_step(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", events())
    done = CliRunner().invoke(cli, ["explain", str(file), "-o", "json"])
    (row,) = json.loads(done.output)["traced"]["rows"]
    shares = {name: round(row[name] * 110) for name in ("computing", "copies", "exposed", "overlapped", "idle")}
    assert shares == {"computing": 65, "copies": 10, "exposed": 30, "overlapped": 10, "idle": 5}
    assert row["step_ms"] == pytest.approx(0.055)


def test_a_packed_file_says_the_same(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.json", events())
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_traces([packed]) == read_traces([plain])


def test_ranks_wait_for_the_last_one(tmp_path: Path) -> None:
    """Rank 1 comes 20 us later to the all-reduce."""
    files = [write(tmp_path / f"{rank}.json", events(20.0 * rank), rank=rank, world_size=2) for rank in (1, 0)]
    point, _ = read_traces(files)
    waits = {rank: trace.collectives[0].waited_ns for rank, trace in zip(point.ranks, point.traces, strict=True)}
    assert waits == {0: 20_000, 1: 0}


def test_without_marked_steps_everything_is_one(tmp_path: Path) -> None:
    point, notes = read_traces([write(tmp_path / "a.json", events()[3:])])
    assert point.traces[0].steps == 1
    assert notes[-1] == NO_STEPS


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (events()[:4], "a.json: no kernel of a GPU among 4 events: was the GPU profiled?"),
        ([], "a.json: no kernel of a GPU among 0 events: was the GPU profiled?"),
        ([*events(), kernel("gemm", 0, 1, device=1)], "a.json: kernels of 2 GPUs; expected those of one rank"),
        ([kernel("gemm", 1, 1)], "a.json: its kernels take no time"),
        ([kernel("gemm", 5, 2)], "a.json: event 1: dur: got -3, expected microseconds"),
        ([kernel("gemm", float("nan"), 2)], "a.json: event 1: ts: got nan, expected microseconds"),
        ([{**kernel("gemm", 0, 2), "ts": "now"}], "a.json: event 1: ts: got now, expected microseconds"),
        ([{**kernel("gemm", 0, 2), "ts": 10**400}], "a.json: event 1: ts: got 1000000"),
    ],
)
def test_a_bad_event_is_named(tmp_path: Path, listed: list[Any], message: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_traces([write(tmp_path / "a.json", listed)])
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (json.dumps({"traceEvents": events()}).encode()[:200], "not JSON, or cut short: "),
        (gzip.compress(json.dumps({"traceEvents": events()}).encode())[:-12], "gzip file that is broken or cut short"),
        (b"\x1f\x8b no gzip", "broken gzip file"),
        (b'{"resourceSpans": []}', "no trace of torch.profiler: no list traceEvents"),
        (b"[1, 2]", "no trace of torch.profiler: no list traceEvents"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"", "not JSON, or cut short: "),
        (b"[" * 200_000, "not JSON"),
    ],
)
def test_a_file_that_is_no_trace_gives_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(data)
    done = CliRunner().invoke(cli, ["explain", str(file)])
    assert (done.exit_code, done.stdout) == (EXIT_INPUT, "")
    assert done.stderr.count("\n") == 1
    assert f"{file}: {message}" in done.stderr


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.json")
    with pytest.raises(TraceError, match="is not a regular file"):
        read_traces([tmp_path / "trace.json"])


def test_files_that_do_not_belong_together_are_named(tmp_path: Path) -> None:
    one, two = (write(tmp_path / f"{name}.json", events(), rank=0, world_size=2) for name in "ab")
    with pytest.raises(TraceError, match=r"a.json and .*b.json are both of rank 0; expected one file a rank"):
        read_traces([one, two])
    write(two, events(), rank=1, world_size=8)
    with pytest.raises(TraceError, match="files of different jobs: of 2 and of 8 ranks"):
        read_traces([one, two])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{trace}", "bundle"], "bundle: got a bundle beside traces; expected either"),
        (["{trace}", "--test", "x.yaml"], "--test takes one bundle that has its experiment, and no trace"),
        (["missing.json"], "missing.json: No such file or directory"),
    ],
)
def test_wrong_calls_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    trace = write(tmp_path / "a.json", events())
    done = CliRunner().invoke(cli, ["explain", *(word.format(trace=trace) for word in arguments)])
    assert done.exit_code == EXIT_INPUT
    assert message in done.stderr
