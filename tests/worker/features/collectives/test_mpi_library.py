"""``program: allreduce`` over MPI, by real ranks of mpirun; torch cannot be imported by any of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.features.collectives.facts import ALLREDUCE, COLLECTIVES
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.verdict import judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.worker.features.collectives.mpi_ranks import NO_TORCH, lacking, mpirun
from tests.worker.pods import on_nodes
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, records

pytestmark = [pytest.mark.processes, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]
SIZES = {"minBytes": 4, "maxBytes": 4096, "factor": 32, "iterations": 6, "warmup": 1}
ELEMENTS, TIMES = 1000, 8
WHOLE = 4 * ELEMENTS
# Who sends how many messages, and how many bytes in all, in one all-reduce of 4 ranks: the textbooks' figures.
GRAPHS: dict[str, dict[tuple[int, int], tuple[int, int]]] = {
    "ring": {(rank, (rank + 1) % 4): (6, 6 * WHOLE // 4) for rank in range(4)},
    "recursive-doubling": {(rank, rank ^ bit): (1, WHOLE) for rank in range(4) for bit in (1, 2)},
    "rabenseifner": {
        (rank, rank ^ bit): (2, share) for rank in range(4) for bit, share in ((1, WHOLE), (2, WHOLE // 2))
    },
    "tree": {pair: (1, WHOLE) for pair in ((1, 0), (2, 0), (3, 2), (0, 1), (0, 2), (1, 3))},
    "parameter-server": {pair: (1, WHOLE) for rank in (1, 2, 3) for pair in ((rank, 0), (0, rank))},
}
# Two nodes of two ranks: every rank's half to and fro inside the node, and across.
BY_NODES = {(rank, rank ^ bit): size for rank in range(4) for bit, size in ((1, WHOLE), (2, WHOLE // 2))}


def trial(workers: int, algorithm: str = "auto", **workload: Any) -> TrialSpec:
    given = {"program": "allreduce", "backend": "mpi", "device": "auto", "allReduce": algorithm, "sizes": SIZES}
    return make_trial(workers, workload=given | workload, measure={"maxForeignLoad": 1.0})


@pytest.mark.parametrize(("workers", "algorithm"), [(1, "ring"), (2, "tree"), (2, "auto"), (4, "rabenseifner")])
def test_a_record_as_every_program_leaves_it(tmp_path: Path, workers: int, algorithm: str) -> None:
    asked = trial(workers, algorithm)
    mpirun(tmp_path, workers, NO_TORCH, trial=asked)
    found = records(tmp_path, workers)
    assert [record.backend for record in found] == ["mpi"] * workers
    first = found[0]
    assert [row.bytes for row in ALLREDUCE.of(first)] == [4, 128, 4096]
    assert [row.errors for row in ALLREDUCE.of(first)] == [0, 0, 0]
    for row in ALLREDUCE.of(first):
        assert row.in_place
        assert row.iterations == 6
        assert row.busbw == pytest.approx(row.algbw * 2 * (workers - 1) / workers)
    assert [ALLREDUCE.of(record) for record in found] == [ALLREDUCE.of(first)] * workers
    assert first.versions["mpi"].startswith("Open MPI ")
    set_to = first.options["libraryParameters"]
    assert set_to.get("coll_tuned_allreduce_algorithm") == {
        "ring": "ring",
        "tree": "nonoverlapping",
        "rabenseifner": "rabenseifner",
    }.get(algorithm)
    verdict = judge(asked, {record.topology.rank: record for record in found}, Outcome(engine="tests", attempt=1))
    broken = {check.name for check in verdict.checks if check.passed is False}
    assert broken <= {"Oversubscribed"}  # these ranks were not given cores of their own
    assert verdict.phase in (TrialPhase.succeeded, TrialPhase.invalid)


@pytest.mark.parametrize("algorithm", GRAPHS)
def test_the_library_sends_what_the_algorithm_sends(tmp_path: Path, algorithm: str) -> None:
    """As Open MPI's own monitoring counts messages: neither another component nor another algorithm took over."""
    assert counted(tmp_path, algorithm) == GRAPHS[algorithm]


def test_a_hierarchical_all_reduce_sends_a_share_across_nodes(tmp_path: Path) -> None:
    sent = {pair: size for pair, (_, size) in counted(tmp_path, "hierarchical").items()}
    # Splitting the world sends a few bytes too.
    assert sent == {pair: pytest.approx(size, rel=0.02) for pair, size in BY_NODES.items()}


def test_every_collective(tmp_path: Path) -> None:
    asked = make_trial(3, workload={"program": "collectives", "backend": "mpi", "device": "auto", "sizes": SIZES})
    mpirun(tmp_path, 3, NO_TORCH, trial=asked)
    rows = COLLECTIVES.of(records(tmp_path, 3)[0])
    assert [(row.collective, row.errors) for row in rows] == [(kind, 0) for kind in Collective for _ in range(3)]


def counted(tmp_path: Path, algorithm: str) -> dict[tuple[int, int], tuple[float, float]]:
    """Messages and bytes of one all-reduce, by sender and receiver."""
    monitoring = {
        "OMPI_MCA_pml_monitoring_enable": "2",
        "OMPI_MCA_pml_monitoring_enable_output": "3",
        "OMPI_MCA_pml_monitoring_filename": str(tmp_path / "sent"),
    }
    mpirun(tmp_path, 4, str(SCRIPTS / "mpi_messages.py"), algorithm, str(TIMES), str(ELEMENTS), **monitoring)
    sent = {}
    for path in tmp_path.glob("sent.*.prof"):
        for line in path.read_text().splitlines():
            if line.startswith("I\t"):
                _, source, target, size, messages = line.split("\t")[:5]
                count, total = int(messages.split()[0]), int(size.split()[0])
                sent[int(source), int(target)] = (count / TIMES, total / TIMES)
    return sent


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"OMPI_MCA_coll": "basic,libnbc,self,inter"},
            "workload.allReduce: ring was requested by OMPI_MCA_coll_tuned_use_dynamic_rules=true, "
            "but Open MPI reports no such parameter",
        ),
        (
            {"RANK": "0", "WORLD_SIZE": "7", "LOCAL_RANK": "0"},
            "workload.backend: mpirun started 7 ranks, but MPI has 2: mpirun and mpi4py's library",
        ),
    ],
)
def test_what_mpi_does_not_do_as_asked_is_said(tmp_path: Path, environment: dict[str, str], said: str) -> None:
    done = mpirun(tmp_path, 2, NO_TORCH, trial=trial(2, "ring"), fails=True, **environment)
    assert f"scalecurve: rank 0: {said}" in done.stderr
    assert '"reason":"BadWorkload"' in (tmp_path / "rank-0.failure.json").read_text()


def test_a_hierarchical_all_reduce_over_two_nodes(tmp_path: Path) -> None:
    asked = on_nodes(trial(4, "hierarchical"), 2)
    mpirun(tmp_path, 4, NO_TORCH, trial=asked)
    rows = ALLREDUCE.of(records(tmp_path, 4)[0])
    assert [(row.bytes, row.errors) for row in rows] == [(8, 0), (128, 0), (4096, 0)]  # whole elements for two


def test_ranks_of_a_node_that_are_not_in_one(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.environ['NODE_NAME'] = 'node-' + os.environ['OMPI_COMM_WORLD_RANK']; "
        "from scalecurve_worker.__main__ import main; sys.exit(main())"
    )
    done = mpirun(tmp_path, 2, "-c", code, trial=trial(2, "hierarchical"), fails=True)
    assert "hierarchical sums within each node first, but ranks 0 to 1 are on node-0, node-1" in done.stderr


def test_a_models_gradients_need_torch(tmp_path: Path) -> None:
    done = mpirun(tmp_path, 1, NO_TORCH, trial=trial(1, model="mlp", sizes={"payload": "buckets"}), fails=True)
    assert "workload.sizes.payload: buckets needs torch to build workload.model, and torch is not" in done.stderr


def test_a_models_gradients_one_after_another(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    asked = trial(2, model="mlp", sizes={"payload": "gradients", "iterations": 3})
    mpirun(tmp_path, 2, "-m", "scalecurve_worker", trial=asked)
    first = records(tmp_path, 2)[0]
    *alone, step = ALLREDUCE.of(first)
    assert {row.messages for row in alone} == {1}
    assert step.messages > len(alone) > 1  # several layers have biases of one size
    assert step.bytes > sum(row.bytes for row in alone)
    assert {row.errors for row in ALLREDUCE.of(first)} == {0}


def test_an_image_without_mpi4py(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mpi4py'] = None; from scalecurve_worker.__main__ import main; sys.exit(main())"
    done = launch(tmp_path, [sys.executable, "-c", code], trial(1), fails=True)
    assert "workload.program: allreduce needs mpi4py, which is not installed here" in done.stderr
