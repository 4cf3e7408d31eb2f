"""nccl-tests beside our own measurement, played by scripts on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scalecurve_api.features.collectives.fields import CollectivesWorkload
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_worker.features.collectives.nccl_tests import command, measure, rows_of, why_not

OUTPUT = """\
# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 1 iters: 5 agg iters: 1 validation: 1
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float    none      -1    10.24    0.10    0.05       0     8.00    0.13    0.06     N/A
        2048           512     float    none      -1    10.24    0.20    0.10       3      N/A     N/A     N/A     N/A
# Out of bounds values : 0 OK
"""


def workload(**fields: object) -> CollectivesWorkload:
    sizes = {"minBytes": 1024, "maxBytes": 2048, "iterations": 5, "warmup": 1}
    kinds = ["all-gather", "send-recv"]
    return CollectivesWorkload.model_validate(
        {"program": "collectives", "tool": "nccl-tests", "collectives": kinds, "sizes": sizes, **fields}
    )


def play(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_printed_lines_become_rows_of_the_collective() -> None:
    rows = list(rows_of(Collective.all_gather, OUTPUT, 2, 5))
    assert [(row.bytes, row.in_place, row.errors) for row in rows] == [
        (1024, False, 0),
        (1024, True, 0),
        (2048, False, 3),
    ]
    assert rows[0].algbw == pytest.approx(0.1)
    assert rows[0].busbw == pytest.approx(0.05)
    assert {row.tool for row in rows} == {"nccl-tests"}


def test_it_runs_on_the_same_sizes_and_says_what_failed(path: Path) -> None:
    play(path, "all_gather_perf", f"#!/bin/sh\necho \"$@\" > {path}/called\ncat <<'END'\n{OUTPUT}END\n")
    play(path, "sendrecv_perf", "#!/bin/sh\necho no GPU >&2\nexit 2\n")
    rows, failures = measure(workload(), 2)
    assert [row.bytes for row in rows] == [1024, 1024, 2048]
    assert failures == {"send-recv": "exit status 2: no GPU"}
    assert (path / "called").read_text().split() == command(Collective.all_gather, workload().sizes, 2)[1:]


def test_why_it_cannot_run(path: Path) -> None:
    assert why_not(workload(), ["a", "a"], 2) == "not on PATH: all_gather_perf, sendrecv_perf"
    for name in ("all_gather_perf", "sendrecv_perf"):
        play(path, name, "#!/bin/sh\n")
    assert why_not(workload(), ["a", "a"], 2) is None
    assert why_not(workload(), ["a", "b"], 2) == "ranks are on 2 machines"
    assert why_not(workload(), ["a", "a"], 1) == "rank 0 sees 1 of 2 GPUs"
    assert why_not(workload(sizes={"payload": "buckets"}), ["a", "a"], 2) == "it has no payload buckets"
