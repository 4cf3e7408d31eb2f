"""A carrier from outside the package runs an experiment: it plays records back, and its jobs outlive the engine."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve_api import contract
from scalecurve_api.record.ledger import Event
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local import InputError, RunProgress, RunResult, StopRequest, run
from scalecurve_local.attempt import AttemptFolder, Cause, CommandStatus, ExitReport, StartReport
from scalecurve_local.carrier import Carrier, State
from scalecurve_local.stop import StopRequestedError
from tests.api.example_experiments import experiment
from tests.api.rank_records import BEGIN, MEASURE, SECOND, rank_record, steps_of

T1, T2 = "weak-1-1x1-r1", "weak-2-1x2-r1"
EXPERIMENT = experiment({"measure": MEASURE})


class Killed(BaseException):
    """The end of an engine that has no say in it."""


class Queue:
    """A batch system of which nothing is left in memory: a job is a folder, and a poll moves its time on."""

    def __init__(self, spool: Path, most: int = 4, killed_at: int = 0) -> None:
        self.spool, self.most, self.killed_at = spool, most, killed_at
        self.calls: list[str] = []

    def admit(
        self, bundle: Path, spec: ExperimentSpec, trials: Sequence[TrialSpec], earlier: Mapping[str, TrialRecord]
    ) -> Sequence[str]:
        if len(trials) > self.most:
            raise InputError(f"{bundle}: the queue takes {self.most} jobs")
        return (f"queue: {self.spool.name}",)

    @contextmanager
    def hold(self, say: Callable[[str], None], stopped: Callable[[], bool]) -> Iterator[Callable[[Path], None]]:
        say("waiting for the queue")
        if stopped():
            raise StopRequestedError
        yield lambda _: None

    def start(self, trial: TrialSpec, attempt: AttemptFolder, paired: str | None) -> str:
        job = f"job-{len(list(self.spool.iterdir()))}"
        self.calls.append(f"start {job}")
        devices = [f"cpu:{rank}" for rank in range(trial.point.workers)]
        attempt.note(
            StartReport(id=job, begun_ns=BEGIN - 10 * SECOND, devices=devices, oversubscribed=False, paired=paired)
        )
        (self.spool / job).mkdir()
        (self.spool / job / "trial.json").write_text(trial.model_dump_json(by_alias=True))
        (self.spool / job / "polls").write_text("0")
        return job

    def polls(self, job: str) -> int:
        place = self.spool / job / "polls"
        return int(place.read_text()) if place.exists() else -1

    def poll(self, ids: Collection[str], wait_s: float) -> Mapping[str, State]:
        for job in ids:
            if self.polls(job) >= 0:
                (self.spool / job / "polls").write_text(str(self.polls(job) + 1))
        if self.killed_at and any(self.polls(job) == self.killed_at for job in ids):
            raise Killed
        ended = {job: self.polls(job) > 3 or (self.spool / job / "stopped").exists() for job in ids}
        states = {job: State.ended if ended[job] else State.running for job in ids}
        return {job: states[job] if self.polls(job) >= 0 else State.unknown for job in ids}

    def stop(self, ids: Collection[str], at_once: bool) -> None:
        for job in ids:
            self.calls.append(f"stop {job}")
            (self.spool / job / "stopped").touch()

    def collect(self, id: str, attempt: AttemptFolder) -> None:
        trial = TrialSpec.model_validate_json((self.spool / id / "trial.json").read_bytes())
        stopped = (self.spool / id / "stopped").exists()
        for rank in range(trial.point.workers):
            journal = steps_of(rank)
            self.put(attempt, contract.ready_file(rank), json.dumps({"rank": rank}).encode())
            self.put(attempt, contract.journal_file(rank), journal[: len(journal) * self.polls(id) // 4])
            if self.polls(id) > 3:
                self.put(
                    attempt, contract.rank_file(rank), rank_record(rank, trial).model_dump_json(by_alias=True).encode()
                )
        if stopped or self.polls(id) > 3:
            codes: list[CommandStatus | None] = [CommandStatus(code=-15 if stopped else 0)] * trial.point.workers
            cause: Cause = "stopped" if stopped else "ended"
            attempt.note(ExitReport(cause=cause, statuses=codes, started_ns=BEGIN, ended_ns=BEGIN + 9 * SECOND))

    def put(self, attempt: AttemptFolder, name: str, data: bytes) -> None:
        """What is new, behind what an earlier call or an earlier engine brought."""
        place = attempt.folder / name
        there = 0 if (status := place.status()) is None else status.st_size
        with place.path.open("ab") as file:
            file.write(data[there:])

    def attach(self, id: str) -> None:
        self.calls.append(f"attach {id}")


class Site:
    """One experiment, its bundle and its queue."""

    def __init__(self, folder: Path) -> None:
        self.bundle, self.spool = folder / "bundle", folder / "spool"
        self.spool.mkdir()

    def run(self, carrier: Carrier, **options: Any) -> RunResult:
        return run(EXPERIMENT, yaml.safe_dump(EXPERIMENT.wire()), self.bundle, carrier=carrier, **options)

    def begun(self) -> list[tuple[str | None, int | None]]:
        return [(entry.trial, entry.attempt) for entry in LedgerFile(self.bundle).ledger.of(Event.started)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_another_carrier_runs_an_experiment_to_its_curve(site: Site) -> None:
    queue = Queue(site.spool)
    seen: list[RunProgress] = []
    result = site.run(queue, report=seen.append)
    assert (result.exit_code, result.notes) == (0, ("queue: spool",)), result.records
    assert queue.calls == ["start job-0", "start job-1"], "one after the other"
    assert seen[0].message == "waiting for the queue"
    steps = [progress.pace.step for progress in seen if progress.trial and progress.trial.name == T1 and progress.pace]
    assert steps == sorted(steps)
    assert {0, 3} < set(steps), "as far as its journal was brought while it ran"
    assert not (site.bundle / ".work").exists()
    bundle = open_bundle(site.bundle)
    assert not bundle.problems
    assert [point.workers for series in scaling([bundle]).series for point in series.points] == [1, 2]


@pytest.mark.parametrize("killed_at", [1, 2, 3, 4])
def test_after_a_restart_it_attaches_to_what_still_runs(site: Site, killed_at: int) -> None:
    with pytest.raises(Killed):
        site.run(Queue(site.spool, killed_at=killed_at))
    assert site.begun() == [(T1, 1)]
    queue = Queue(site.spool)
    assert site.run(queue, resume=True).exit_code == 0
    assert queue.calls == ["attach job-0", "start job-1"], "nothing is started twice"
    assert site.begun() == [(T1, 1), (T2, 1)]
    assert {trial.record.attempt for trial in open_bundle(site.bundle).trials if trial.record} == {1}


def test_what_is_not_known_any_more_is_run_again(site: Site) -> None:
    with pytest.raises(Killed):
        site.run(Queue(site.spool, killed_at=2))
    (site.spool / "job-0" / "polls").unlink()
    assert site.run(Queue(site.spool), resume=True).exit_code == 0
    assert site.begun() == [(T1, 1), (T1, 2), (T2, 1)]


def test_what_vanishes_while_it_is_watched_fails_and_is_not_run_without_end(site: Site) -> None:
    def lose(progress: RunProgress) -> None:
        if progress.trial and progress.trial.name == T1:
            (site.spool / "job-0" / "polls").unlink(missing_ok=True)

    result = site.run(Queue(site.spool), report=lose)
    assert site.begun() == [(T1, 1), (T2, 1)]
    assert (result.records[T1].reason, result.records[T1].message) == ("RankKilled", "the carrier lost job-0")
    assert result.records[T2].phase == "Succeeded"


def test_a_stop_reaches_it_and_the_rest_is_run_later(site: Site) -> None:
    queue, stop = Queue(site.spool), StopRequest()

    def interrupt(progress: RunProgress) -> None:
        if progress.trial and not stop.times:
            stop(signal.SIGINT, None)

    assert site.run(queue, stop=stop, report=interrupt).exit_code == 130
    assert queue.calls == ["start job-0", "stop job-0"]
    assert site.run(Queue(site.spool), resume=True).exit_code == 0
    assert site.begun() == [(T1, 1), (T1, 2), (T2, 1)]


def test_it_may_refuse_before_anything_is_written_and_be_stopped_while_it_waits(site: Site) -> None:
    with pytest.raises(InputError, match="the queue takes 1 jobs"):
        site.run(Queue(site.spool, most=1))
    stop = StopRequest()
    stop(signal.SIGINT, None)
    assert site.run(Queue(site.spool), stop=stop).exit_code == 130
    assert not site.bundle.exists()
