"""Results of Ramble and ReFrame: a figure of merit of every case that passed. Shapes are the tools', numbers ours.

https://github.com/GoogleCloudPlatform/ramble/blob/develop/lib/ramble/ramble/experiment_result.py
https://github.com/reframe-hpc/reframe/blob/develop/reframe/schemas/runreport.json
"""

import json
from pathlib import Path
from typing import Any

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.compose import compose
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.reading import Reading, SourceError, Unit

NOTHING = Statements()


def read(folder: Path, tree: object, statements: Statements = NOTHING) -> tuple[str, list[Reading]]:
    path = folder / "results.json"
    path.write_text(json.dumps(tree, indent=1))
    name, importer = importer_of(path)
    return name, list(importer.read(path, statements))


def fom(name: str, value: object, units: str, origin: str = "application") -> dict[str, object]:
    return {"name": name, "value": value, "units": units, "origin": "toy", "origin_type": origin}


def experiment(name: str, ranks: int, *foms: dict[str, object], status: str = "SUCCESS", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "RAMBLE_STATUS": status,
        "N_REPEATS": 0,
        "application_name": "toy",
        "workload_name": "train",
        "n_ranks": str(ranks),
        "n_nodes": str(-(-ranks // 4)),
        "processes_per_node": str(min(4, ranks)),
        "CONTEXTS": [{"name": "null", "foms": list(foms), "display_name": "null"}],
        "RAMBLE_VARIABLES": {"mbs": "8", "mpi_command": "mpirun"},
        **more,
    }


def test_ramble(tmp_path: Path) -> None:
    experiments = [
        experiment("a", 4, fom("Speed", "400.5", "samples/s"), fom("Memory", "12.1", "GB")),
        experiment("b", 8, fom("Speed", "790", "samples/s")),
        experiment("c", 16, fom("Speed", "9999", "samples/s"), status="FAILED"),
    ]
    stated = Statements(columns={"batch_per_worker": "mbs"})
    name, readings = read(tmp_path, {"workspace_hash": "x", "experiments": experiments}, stated)
    assert name == "ramble"
    assert [(r.workers, r.nodes, r.throughput, r.model) for r in readings] == [
        (4, 1, pytest.approx(400.5), "toy.train"),
        (8, 2, pytest.approx(790), "toy.train"),
    ]
    assert readings[0].notes == ("1 case skipped: results.json, c (FAILED)",)
    assert len(compose("x", readings).records) == 2, "weak, by the batch of a worker"


def test_ramble_of_another_variable_and_figure(tmp_path: Path) -> None:
    foms = (fom("Tokens", "64", "tokens/s"), fom("Samples", "8", "samples/s"))
    tree = {"experiments": [experiment("a", 2, *foms, RAMBLE_VARIABLES={"accelerators": "16"})]}
    with pytest.raises(SourceError, match=r"'Tokens' \(tokens/s\), 'Samples' \(samples/s\) are each a throughput: cho"):
        read(tmp_path, tree)
    stated = Statements({"mode": "weak"}, {"throughput": "Tokens", "workers": "accelerators"})
    _, (reading,) = read(tmp_path, tree, stated)
    assert (reading.workers, reading.throughput, reading.unit) == (16, pytest.approx(64), Unit.tokens)


def test_ramble_sums_repetitions_up(tmp_path: Path) -> None:
    """The experiment over repetitions has statistics, which are no runs where its repetitions are there."""
    runs = [experiment(f"a.{n}", 4, fom("Elapsed time", n, "s")) for n in (1, 2)]
    summary = experiment(
        "a", 4, fom("Elapsed time", 1.5, "s", "summary::mean"), fom("Elapsed time", 0.7, "s", "summary::stdev")
    )
    summary["N_REPEATS"] = 2
    _, readings = read(tmp_path, {"experiments": [summary, *runs]})
    assert [reading.throughput for reading in readings] == [1, 0.5]
    _, (reading,) = read(tmp_path, {"experiments": [summary]})
    assert (reading.throughput, reading.notes) == (pytest.approx(1 / 1.5), ("mean of 2 repetitions",))


@pytest.mark.parametrize(
    ("experiments", "message"),
    [
        ([], "no case passed with a figure of merit (it has no case)"),
        ([experiment("a", 4, status="FAILED")], "no case passed with a figure of merit (results.json, a: FAILED)"),
        ([experiment("a", 4, fom("busbw", "9", "GB/s"))], "none of its figures of merit is a throughput or a time "
         "('busbw' (GB/s)); name one and its unit: --column throughput=FIGURE --unit throughput=samples/s"),
        ([experiment("a", 4, fom("Speed", "n/a", "samples/s"))], "column 'Speed': got 'n/a', expected a positive numb"),
    ],
)  # fmt: skip
def test_ramble_without_a_number(tmp_path: Path, experiments: list[object], message: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(tmp_path, {"experiments": experiments, "about": '"RAMBLE_STATUS"', "RAMBLE_STATUS": ""})
    assert message in str(refused.value)


def case(name: str, tasks: int, value: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name.partition(" ")[0],
        "display_name": name,
        "result": "pass",
        "num_tasks": tasks,
        "num_tasks_per_node": min(4, tasks),
        "job_nodelist": [f"nid{at}" for at in range(-(-tasks // 4))],
        "perfvalues": {"daint:gpu:img_rate": [value, 0, None, None, "img/s", "pass"]},
        **more,
    }


def report(*cases: dict[str, Any]) -> dict[str, Any]:
    return {"session_info": {"data_version": "4.0"}, "runs": [{"run_index": 0, "testcases": list(cases)}]}


def test_reframe(tmp_path: Path) -> None:
    cases = [case(f"Toy %n={n}", n, 100.0 * n) for n in (4, 8)]
    failed = case("Toy %n=16", 16, 5.0, result="fail", fail_reason="sanity error: no match\nmore")
    name, readings = read(tmp_path, report(*cases, failed), Statements({"mode": "weak"}))
    assert name == "reframe"
    assert [(r.workers, r.nodes, r.throughput, r.model) for r in readings] == [(4, 1, 400, "Toy"), (8, 2, 800, "Toy")]
    assert readings[1].notes == ("1 case skipped: results.json, Toy %n=16 (sanity error: no match)",)


def test_reframe_of_version_3(tmp_path: Path) -> None:
    old = case("Toy", 8, 1.0, result="success", nodelist=["a", "b"], job_nodelist=None)
    old["perfvalues"] = None
    old["perfvars"] = [{"name": "step_time", "value": 250.0, "unit": "ms", "reference": 0}]
    stated = Statements({"global_batch": "64"})
    _, (reading,) = read(tmp_path, report(old), stated)
    assert (reading.workers, reading.nodes, reading.throughput) == (8, 2, pytest.approx(256))


def test_reframe_with_more_devices_than_tasks(tmp_path: Path) -> None:
    tree = report(case("Toy", 2, 300.0, num_tasks_per_node=1, num_gpus_per_node=4, job_nodelist=["a", "b"]))
    with pytest.raises(SourceError, match="2 tasks with 8 GPUs on 2 nodes: which are the workers"):
        read(tmp_path, tree)
    assert read(tmp_path, tree, Statements({"workers": "8"}))[1][0].workers == 8
    _, (reading,) = read(tmp_path, tree, Statements(columns={"workers": "num_tasks"}))
    assert reading.workers == 2
