"""All-reduces of other tools: nccl-tests, CloudAI; shapes are the tools', numbers ours."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.reading import Reading, SourceError

SIZES = {8: 11.2, 1 << 20: 31.4, 128 << 20: 1012.0}


def bandwidths(size: int, time_us: float, ranks: int) -> tuple[float, float]:
    algbw = size / time_us / 1e3
    return algbw, algbw * 2 * (ranks - 1) / ranks


def devices(hosts: int, each: int) -> list[tuple[int, str, int]]:
    return [(host * each + local, f"node-{host}", local) for host in range(hosts) for local in range(each)]


def printed(
    hosts: int = 1,
    each: int = 4,
    *,
    name: str = "all_reduce_perf",
    root: bool = True,
    per_iteration: bool = False,
    times: Mapping[int, float] = SIZES,
) -> str:
    """What nccl-tests prints; before 2.13 without groups, roots and the name of the test."""
    ranks = hosts * each
    group = "Group  0 " if root else ""
    lines = [f"# Collective test starting: {name}"] if name else []
    lines += [
        f"# nThread 1 nGpus {each} minBytes 8 maxBytes 134217728 step: 4(factor) warmup iters: 1 iters: 20 "
        "agg iters: 1 validation: 1 graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2} {group}Pid {4000 + rank:6} on {host:>10} device {local:2} [0000:{local:02x}:00] Toy GPU"
            for rank, host, local in devices(hosts, each)
        ),
        "#",
        "#                                    out-of-place                       in-place",
    ]
    side = ["time", "algbw", "busbw", "#wrong", *(["i_min", "i_max", "i_p99", "i_cv%"] if per_iteration else [])]
    lines.append("# " + "  ".join(["size", "count", "type", "redop", *(["root"] if root else []), *side, *side]))
    lines.append("#  (B)  (elements)  (us)  (GB/s)  (GB/s)")
    for size, time in times.items():
        cells = [str(size), str(size // 4), "float", "sum", *(["-1"] if root else [])]
        for factor in (1.0, 0.5):
            algbw, busbw = bandwidths(size, time * factor, ranks)
            if name == "all_gather_perf":
                busbw /= 2
            cells += [f"{time * factor:.2f}", f"{algbw:.2f}", f"{busbw:.2f}", "0"]
            cells += [f"{time * factor * 0.9:.2f}", "2000", "1500", "3.1"] if per_iteration else []
        lines.append("  ".join(cells))
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 83.1", "#", ""])


def report(hosts: int = 1, each: int = 4, name: str = "all_reduce_perf") -> dict[str, object]:
    """What -J writes, version 3."""
    results = []
    for size, time in SIZES.items():
        sides = {}
        for key, factor in (("out_of_place", 1.0), ("in_place", 0.5)):
            algbw, busbw = bandwidths(size, time * factor, hosts * each)
            sides[key] = {"time": time * factor, "alg_bw": algbw, "bus_bw": busbw, "nwrong": 0.0}
        row = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1", **sides}
        results.append({**row, "actual_iterations": 20, "experiment_name": name})
    listed = [
        {"rank": rank, "group": 0, "pid": 4000 + rank, "hostname": host, "device": local,
         "device_hex": f"0000:{local:02x}:00", "device_info": "Toy GPU"}
        for rank, host, local in devices(hosts, each)
    ]  # fmt: skip
    config = {"nthreads": 1, "ngpus": each, "minimum_bytes": 8, "maximum_bytes": 128 << 20, "iterations": 20}
    return {
        "version": 3,
        "start_time": "2026-01-01 10:00:00",
        "args": [f"/opt/build/{name}", "-b", "8"],
        "env": ["HOME=/root", "AWS_SECRET_ACCESS_KEY=hush", "NCCL_ALGO=Ring"],
        "nccl_version": 22803,
        "config": {**config, "devices": listed},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
    }


def read(folder: Path, text: str, name: str, **facts: str) -> tuple[str, list[Reading]]:
    path = folder / name
    path.write_text(text)
    name, importer = importer_of(path)
    return name, list(importer.read(path, Statements(facts)))


@pytest.mark.parametrize(
    "text",
    [
        printed(),
        printed(name="", root=False),
        printed(per_iteration=True),
        printed().replace("# nThread", "node-0:99:99 [0] NCCL INFO Launch mode Parallel\n# nThread"),
        json.dumps(report()),
    ],
    ids=["now", "before 2.13", "per iteration", "with NCCL's own lines", "JSON"],
)
def test_nccl_tests(tmp_path: Path, text: str) -> None:
    name, (reading,) = read(tmp_path, text, "out.txt")
    assert (name, reading.workers, reading.nodes) == ("nccl-tests", 4, 1)
    assert {rank.device_name for rank in reading.topology} == {"Toy GPU"}
    rows = {(row.bytes, row.in_place): row for row in reading.allreduce}
    assert len(rows) == 6
    assert rows[1 << 20, False].time_us_median == 31.4
    assert rows[1 << 20, True].time_us_median == 15.7
    assert rows[128 << 20, False].busbw == pytest.approx(198.9, abs=0.1)
    assert rows[8, False].errors == 0


def test_iterations_have_quantiles_in_json(tmp_path: Path) -> None:
    tree = report()
    for row in tree["results"]:  # type: ignore[attr-defined]  # a list, as above
        row["out_of_place_per_iter"] = {"p50_us": 10.0, "min_us": 9.0, "p95_us": 12.0, "times_us": [10.0]}
    _, (reading,) = read(tmp_path, json.dumps(tree), "out.json")
    row = next(row for row in reading.allreduce if not row.in_place)
    assert (row.time_us_median, row.time_us_min, row.time_us_p95) == (10, 9, 12)


def test_only_nccls_variables_are_kept(tmp_path: Path) -> None:
    _, (reading,) = read(tmp_path, json.dumps(report(hosts=2)), "out.json")
    assert reading.environment == {"NCCL_ALGO": "Ring"}
    assert reading.versions == {"nccl": "2.28.3"}
    assert (reading.workers, reading.nodes) == (8, 2)


def test_a_file_may_have_several_tests(tmp_path: Path) -> None:
    _, readings = read(tmp_path, printed(each=2) + printed(each=4), "out.txt")
    assert [reading.workers for reading in readings] == [2, 4]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (printed(name="hypercube_perf"), "is of hypercube_perf; all_reduce_perf, all_gather_perf, reduce_scatter_perf, "
         "alltoall_perf, broadcast_perf, sendrecv_perf are imported"),
        (json.dumps(report(name="gather_perf")), "is of gather_perf; all_reduce_perf"),
        (printed(name="all_gather_perf").partition("\n")[2], "busbw is 0.75 of algbw, and 1.5 for an all-reduce over 4 "
         "workers: it is another collective, or another number of workers"),
        (printed().replace("all_reduce_perf", "all_gather_perf"), "busbw is 1.5 of algbw, and 0.75 for an all-gather"),
        (printed().replace("  time  ", "  cputime  "), "has CPU times (-C 1), which are no times of the all-reduce"),
        ("\n".join(printed().splitlines()[:11]), "has no line with a result; was the test interrupted?"),
        (json.dumps(report())[:900], "no complete report of nccl-tests -J"),
    ],
)  # fmt: skip
def test_what_is_no_all_reduce_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "out").write_text(text)
    with pytest.raises(SourceError) as refused:
        importer_of(tmp_path / "out", "nccl-tests")[1].read(tmp_path / "out", Statements())
    assert message in str(refused.value)


def cloudai(ranks: int, each: int) -> str:
    sides = [f"{what} {side}" for side in ("Out-of-place", "In-place") for what in
             ("Time (us)", "Algbw (GB/s)", "Busbw (GB/s)", "#Wrong")]  # fmt: skip
    header = ["Size (B)", "Count", "Type", "Redop", "Root", *sides, "GPU Type", "Devices per Node", "Ranks",
              "Size Human-readable"]  # fmt: skip
    rows = [",".join(header)]
    for size, time in SIZES.items():
        algbw, busbw = bandwidths(size, time, ranks)
        side = [str(time), f"{algbw:.2f}", f"{busbw:.2f}", "0"]
        rows.append(",".join([str(size), "2", "float", "sum", "-1", *side, *side, "Toy", str(each), str(ranks), "x"]))
    return "\n".join(rows) + "\n"


def test_cloudai(tmp_path: Path) -> None:
    name, (reading,) = read(tmp_path, cloudai(16, 8), "cloudai_nccl_test_csv_report.csv")
    assert (name, reading.workers, reading.nodes, len(reading.allreduce)) == ("cloudai", 16, 2, 6)
