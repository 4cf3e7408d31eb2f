"""Other collectives than all-reduces, and other tools than nccl-tests. Shapes are the tools', numbers ours.

https://github.com/NVIDIA/nccl-tests/blob/master/src/util.cu (times_us, skipped_iterations), issue 45 (alltoall)
https://mvapich.cse.ohio-state.edu/benchmarks/, https://github.com/openucx/ucc/pull/223
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.features.collectives.collectives import collectives
from scalecurve_api.features.collectives.facts import COLLECTIVES
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import import_bundle, importer_of
from scalecurve_importing.reading import SourceError
from tests.importing.test_collective_files import SIZES, printed, read, report

KINDS = {
    "all_gather_perf": Collective.all_gather,
    "reduce_scatter_perf": Collective.reduce_scatter,
    "alltoall_perf": Collective.all_to_all,
    "broadcast_perf": Collective.broadcast,
    "sendrecv_perf": Collective.send_recv,
}


def of(program: str, *, ranks: int = 4, named: bool = True) -> str:
    """What another program prints: its own name, operation and bandwidths."""
    factor = KINDS[program].bus_factor(ranks)
    lines = []
    for line in printed(each=ranks, name=program if named else "").splitlines():
        cells = line.split("  ")
        if cells[0].isdecimal():
            cells[3] = "none"
            cells[7] = f"{float(cells[6]) * factor:.2f}"
            cells[11] = f"{float(cells[10]) * factor:.2f}"
        lines.append("  ".join(cells))
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("program", KINDS)
@pytest.mark.parametrize("form", ["named", "by its command", "tagged"])
def test_nccl_tests_of_every_collective(tmp_path: Path, program: str, form: str) -> None:
    text = of(program, named=form == "named")
    if form == "by its command":
        text = f"+ mpirun -np 4 ./build/{program} -b 8 -e 128M -f 4 -g 1\n{text}"
    if form == "tagged":
        text = "\n".join(f"[1,0]<stdout>:{line}" for line in of(program).splitlines())
    _, (reading,) = read(tmp_path, text, "out.txt")
    assert not reading.allreduce
    row = next(row for row in reading.collectives if row.bytes == 128 << 20 and not row.in_place)
    assert (row.collective, row.tool, row.time_us_median) == (KINDS[program], "nccl-tests", SIZES[128 << 20])
    assert row.busbw == pytest.approx(row.algbw * KINDS[program].bus_factor(4))


def test_collectives_in_json(tmp_path: Path) -> None:
    tree: dict[str, Any] = report(name="all_gather_perf")
    for result in tree["results"]:
        result["redop"] = "none"
        for side in ("out_of_place", "in_place"):
            result[side]["bus_bw"] = result[side]["alg_bw"] * 0.75
    _, (reading,) = read(tmp_path, json.dumps(tree), "out.json")
    assert {row.collective for row in reading.collectives} == {Collective.all_gather}


def test_all_collectives_of_one_machine_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "all.txt").write_text(printed() + of("all_gather_perf") + of("alltoall_perf"))
    (tmp_path / "again.txt").write_text(printed())
    composed = import_bundle([tmp_path / "all.txt", tmp_path / "again.txt"], tmp_path / "out")
    assert [len({row.collective for row in COLLECTIVES.of(record)}) for record in composed.records] == [3, 1]
    results = collectives(open_bundles([tmp_path / "out"])).results
    largest = {
        each.line.collective: each for each in results if each.line.bytes == 128 << 20 and not each.line.in_place
    }
    assert largest[Collective.all_reduce].busbw.repetitions == 2
    assert largest[Collective.all_to_all].busbw.value == pytest.approx((128 << 20) / 1012e3 * 0.75)


def per_iteration(times: list[float], skipped: int = 0) -> dict[str, Any]:
    kept = sorted(times[skipped:])
    return {"skipped_iterations": skipped, "min_us": kept[0], "p50_us": kept[len(kept) // 2], "p95_us": kept[-1],
            "times_us": times}  # fmt: skip


def notes_of(folder: Path, times: list[float], skipped: int = 0) -> tuple[str, ...]:
    tree: dict[str, Any] = report()
    for result in tree["results"]:
        result["out_of_place_per_iter"] = per_iteration(times, skipped)
    return read(folder, json.dumps(tree), "out.json")[1][0].notes


def test_times_of_iterations_give_an_interval(tmp_path: Path) -> None:
    rng = random.Random(7)
    steady = [100 + rng.gauss(0, 1) for _ in range(200)]
    notes = notes_of(tmp_path, steady)
    assert notes[0].startswith("128 MiB: mean 100")
    assert notes[0].endswith(", over 200 iterations")
    assert not any("drift" in note for note in notes)
    low, high = (float(each) for each in notes[0].partition("(")[2].partition(")")[0].split("–"))
    assert 0.1 < high - low < 0.6


def test_drift_and_skipped_iterations_are_said(tmp_path: Path) -> None:
    rng = random.Random(7)
    rising = [900.0] * 5 + [100 + at / 10 + rng.gauss(0, 1) for at in range(200)]
    notes = notes_of(tmp_path, rising, skipped=5)
    assert notes[0] == "its quantiles are without the first 5 iterations (skipped_iterations)"
    assert notes[1].endswith(", over 200 iterations")
    assert notes[2].startswith("times drift at 3 of 3 sizes: they rise by ")
    assert "drift" not in " ".join(notes_of(tmp_path, [100.0] * 5))


def osu(title: str, *, columns: str = "Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations") -> str:
    rows = [f"{size:<10}{time:18.2f}{time - 1:18.2f}{time + 2:18.2f}{1000:12}" for size, time in SIZES.items()]
    return "\n".join(["", f"# OSU {title} Latency Test v7.3", f"# Size       {columns}", *rows, ""])


@pytest.mark.parametrize(
    ("title", "kind", "peers", "backend"),
    [
        ("MPI-CUDA Allreduce", Collective.all_reduce, 1, "mpi"),
        ("MPI Allgather", Collective.all_gather, 4, "mpi"),
        ("MPI All-to-All Personalized Exchange", Collective.all_to_all, 4, "mpi"),
        ("MPI Broadcast", Collective.broadcast, 1, "mpi"),
        ("NCCL-CUDA Allreduce", Collective.all_reduce, 1, "nccl"),
    ],
)
def test_osu(tmp_path: Path, title: str, kind: Collective, peers: int, backend: str) -> None:
    name, (reading,) = read(tmp_path, osu(title), "osu.txt", workers="4")
    rows = reading.allreduce or reading.collectives
    assert (name, reading.backend, [row.bytes for row in rows]) == ("osu", backend, [size * peers for size in SIZES])
    assert rows[-1].busbw == pytest.approx(rows[-1].bytes / 1012e3 * kind.bus_factor(4))
    assert (rows[-1].time_us_min, rows[-1].iterations) == (1011, 1000)


def test_osu_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="states no worker count"):
        read(tmp_path, osu("MPI Allreduce"), "osu.txt")
    with pytest.raises(SourceError, match=r"is of Barrier; expected one of allreduce"):
        read(tmp_path, osu("MPI Barrier"), "osu.txt", workers="4")
    with pytest.raises(SourceError, match="an all-reduce over 1 rank is none"):
        read(tmp_path, osu("MPI Allreduce"), "osu.txt", workers="1")
    failed = osu("MPI Allreduce").replace("1000\n", "1000    Fail\n", 1)
    assert read(tmp_path, failed, "osu.txt", workers="4")[1][0].wrong == "OSU's validation failed"


def ucc(name: str, factor: float, *, bandwidth: bool = True) -> str:
    rows = []
    for size, time in SIZES.items():
        band = size / time / 1e3 * factor
        rows.append(f"{size // 4:12} {size:12} {time:12.2f} {time - 1:12.2f} {time + 1:12.2f}"
                    + (f" {band:10.2f} {band:10.2f} {band:10.2f}" if bandwidth else ""))  # fmt: skip
    head = ["Collective:             " + name, "Memory type:            cuda", "Datatype:               float32",
            "Iterations:", "  small                 1000", "", "   Count   Size         Time, us"]  # fmt: skip
    return "\n".join([*head, "                                 avg         min         max", *rows])


@pytest.mark.parametrize("bandwidth", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "factor", "peers"),
    [
        ("Allreduce", Collective.all_reduce, 1.5, 1),
        ("Alltoall", Collective.all_to_all, 3.0, 4),
        ("Bcast", Collective.broadcast, 1.0, 1),
    ],
)
def test_ucc(tmp_path: Path, name: str, kind: Collective, factor: float, peers: int, bandwidth: bool) -> None:
    form, (reading,) = read(tmp_path, ucc(name, factor, bandwidth=bandwidth), "ucc.txt", workers="4")
    rows = reading.allreduce or reading.collectives
    assert (form, [row.bytes for row in rows]) == ("ucc", [size * peers for size in SIZES])
    assert rows[-1].busbw == pytest.approx((128 << 20) / 1012e3 * factor)
    if bandwidth:
        with pytest.raises(SourceError, match="it is another collective, or another number of workers"):
            read(tmp_path, ucc(name, factor * 1.4), "ucc.txt", workers="4")


@pytest.mark.parametrize(("column", "kinds"), [("", {Collective.all_reduce}), ("all-gather", {Collective.all_gather})])
def test_a_table_of_message_sizes(tmp_path: Path, column: str, kinds: set[Collective]) -> None:
    extra = ",collective" if column else ""
    rows = [f"{n},{size},{size / 1e3 * n}{f',{column}' if column else ''}" for n in (2, 4) for size in (1024, 4096)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"workers,bytes,time_us{extra}", *rows]))
    readings = importer_of(path)[1].read(path, Statements())
    assert [(r.workers, len(r.allreduce) + len(r.collectives)) for r in readings] == [(2, 2), (4, 2)]
    algbw = {round(row.algbw, 3) for r in readings for row in (*r.allreduce, *r.collectives)}
    assert algbw == {0.5, 0.25}
    found = {row.collective for r in readings for row in r.collectives} or {Collective.all_reduce}
    assert found == kinds
    path.write_text("workers,bytes,img/s\n2,8,9\n")
    with pytest.raises(SourceError, match="has bytes and no time; expected a column such as time_us"):
        importer_of(path)[1].read(path, Statements())


def before_2_13(ranks: int) -> str:
    """A broadcast of two hosts in the form that has neither a name nor an operation."""
    lines = [
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 4(factor) warmup iters: 10 iters: 100 validation: 0 ",
        "#", "# Using devices",
        *(f"#   Rank {rank:2} Pid {7000 + rank:6} on host-{rank} device  0 [0x00] Toy GPU" for rank in range(ranks)),
        "host-0:7000:7000 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error",
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ",
    ]  # fmt: skip
    for size, time in SIZES.items():
        half = f"{time:10.2f} {size / time / 1e3:7.2f} {size / time / 1e3:7.2f}    N/A"
        lines.append(f"{size:12} {size // 4:12}   float       0 {half} {half}")
    return "\n".join([*lines, ""])


def test_a_broadcast_without_a_name_is_no_all_reduce(tmp_path: Path) -> None:
    """Two ranks have the same bandwidths in both. https://github.com/NVIDIA/nccl-tests/issues/82"""
    with pytest.raises(SourceError, match="does not say which collective it is, and no all-reduce, as it has no opera"):
        read(tmp_path, before_2_13(2), "out.txt")
    command = "(base) me@host-0:~$ mpirun -x NCCL_IB_DISABLE=1 -np 2 --host a:1,b:1 ./build/broadcast_perf -b 8 -c 0"
    _, (reading,) = read(tmp_path, f"{command}\n{before_2_13(2)}", "out.txt")
    assert {row.collective for row in reading.collectives} == {Collective.broadcast}
    assert (reading.workers, reading.nodes) == (2, 2)


def test_an_indented_log_of_a_pod(tmp_path: Path) -> None:
    """https://github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/313"""
    text = "\n".join(f"        [1,0]<stdout>:{line}" for line in of("alltoall_perf").splitlines())
    text = text.replace("  0\n", "  N/A\n")
    made = "Linking  /opt/build/all_reduce.o > /opt/build/all_reduce_perf\nLinking a > /opt/build/alltoall_perf\n"
    _, (reading,) = read(tmp_path, made + text, "out.txt")
    assert {row.collective for row in reading.collectives} == {Collective.all_to_all}


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("# Size  Avg Latency(us)\n8 1\n", "osu", "has no line"),
        (osu("MPI Allreduce").replace("Iterations\n", "Iterations\n64\n99 x\n"), "osu", ""),
        (osu("MPI Allreduce", columns="Avg Bandwidth(MB/s)"), "osu", "has no column of a latency"),
        (ucc("Alltoall", 3.0) + "\n1 2\n", "ucc", ""),
        (printed().replace("#wrong", "wrong"), "nccl-tests", ""),
        (printed().replace("busbw", "bus"), "nccl-tests", "got '', expected a number"),
        (printed().replace("  time  ", "  tim  "), "nccl-tests", "has no line with a result"),
        (printed().replace("  0\n", "  NaN\n", 1), "nccl-tests", "got 'NaN', expected a number"),
        (json.dumps(report()).replace('"bus_bw"', '"bus"', 1), "nccl-tests", "no complete report of nccl-tests -J"),
        (json.dumps(report()).replace('"actual_iterations": 20', '"actual_iterations": "x"'), "nccl-tests", "no co"),
        ("workers,bytes,time_us\n2,,20\n", "csv", "states no size of its message"),
    ],
)  # fmt: skip
def test_damaged_benchmarks_are_read_or_refused(tmp_path: Path, text: str, form: str, said: str) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    facts = {} if form in ("nccl-tests", "csv") else {"workers": "4"}
    if not said:
        assert importer_of(path, form)[1].read(path, Statements(facts))
        return
    with pytest.raises(SourceError) as refused:
        importer_of(path, form)[1].read(path, Statements(facts))
    assert said in str(refused.value)
