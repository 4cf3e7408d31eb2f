"""Trials whose ranks are forks: the same record as those that are executed, the same ends, and nothing left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from scalecurve_api.planning.plan import make_plan
from scalecurve_local import ForkServer, RunProgress, StopRequest
from scalecurve_local.devices.shares import Share
from tests.local.conftest import Lab, none_left
from tests.local.test_ddp import rank_pids, write
from tests.waiting import PATIENCE_S, eventually

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
T1, T2 = "weak-1-1x1-r1", "weak-2-1x2-r1"
ON_CPU = Share(1, cores=((0,),))


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as running:
        yield running


def losses(bundle: Path, trial: str) -> list[float]:
    """Of the steps of rank 0."""
    steps = read_table(bundle / "trials" / trial / "steps.parquet").to_pandas()
    return [float(loss) for loss in steps[steps["rank"] == 0].sort_values("step")["loss"]]


def test_a_fork_trains_as_an_executed_process_does(lab: Lab, server: ForkServer) -> None:
    write(lab, 5, [1, 2])
    assert lab.run(fork_server=server).exit_code == 0
    forked = {name: lab.record(name) for name in (T1, T2)}
    lab.bundle = lab.folder / "executed"
    assert lab.run().exit_code == 0
    for name, record in forked.items():
        executed = lab.record(name)
        assert record["options"].pop("start") == "forked"
        assert record["options"] == executed["options"], "the same threads, too"
        assert losses(lab.folder / "bundle", name)[:10] == losses(lab.bundle, name)[:10]
        for field in ("phase", "backend", "strategy", "versions"):
            assert record[field] == executed[field]
        assert set(record["exitCodes"].values()) == {0}
        assert [place["cores"] for place in record["topology"]] == [p["cores"] for p in executed["topology"]]
        assert len({place["pid"] for place in record["topology"]}) == len(record["topology"])


def test_a_rank_that_cannot_go_on_says_why(lab: Lab, server: ForkServer) -> None:
    write(lab, 5, [1], data={"source": "cifar10", "path": str(lab.folder / "nowhere")})
    assert lab.run(fork_server=server).exit_code == 1
    record = lab.record(T1)
    assert (record["phase"], record["reason"], record["exitCodes"]) == ("Failed", "BadWorkload", {"0": 1})
    assert str(lab.folder / "nowhere") in record["message"]


def test_a_rank_that_is_killed_is_the_reason(lab: Lab) -> None:
    write(lab, 1_000_000)
    engine = lab.begin("fork-server")
    os.kill(eventually(lambda: rank_pids(lab), "steps of both ranks")[1], signal.SIGKILL)
    assert engine.wait(PATIENCE_S) == 1
    engine.communicate()
    record = lab.record(T2)
    assert (record["phase"], record["reason"]) == ("Failed", "RankKilled")


def test_a_killed_engine_leaves_nothing(lab: Lab) -> None:
    write(lab, 1_000_000)
    lab.killed(lambda: bool(rank_pids(lab)), "fork-server")
    none_left(lab.folder)


def test_a_stop_ends_the_ranks(lab: Lab, server: ForkServer) -> None:
    write(lab, 1_000_000, [1])
    stop = StopRequest()

    def when_it_runs(progress: RunProgress) -> None:
        if progress.pace is not None:
            stop(signal.SIGINT, None)

    assert lab.run(fork_server=server, stop=stop, report=when_it_runs).interrupted
    none_left(lab.bundle)


def test_without_the_server_trials_are_executed(lab: Lab) -> None:
    """It dies while the first trial runs, which is begun again, as after any lost supervisor."""
    write(lab, 5, [1, 2])
    with ForkServer() as server:

        def once_one_runs(progress: RunProgress) -> None:
            if progress.trial is not None:
                os.kill(server.pid, signal.SIGKILL)

        assert lab.run(fork_server=server, report=once_one_runs).exit_code == 0
    assert [name for name in (T1, T2) if "start" not in lab.record(name)["options"]]


def test_what_cannot_be_a_fork(lab: Lab, server: ForkServer) -> None:
    write(lab, 5)
    trial = make_plan(lab.experiment).trials[-1]
    assert server.suits(trial, ON_CPU)
    assert not server.suits(trial, replace(ON_CPU, gpus=("GPU-1",))), "CUDA survives no fork"
    for change in ({"launcher": "mpirun"}, {"env": {"OMP_PROC_BIND": "true"}}):
        write(lab, 5, **change)
        assert not server.suits(make_plan(lab.experiment).trials[-1], ON_CPU)
    lab.write()
    assert not server.suits(trial.model_copy(update={"workload": lab.experiment.spec.workload}), ON_CPU)
