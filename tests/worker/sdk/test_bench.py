from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import UserDict
from collections.abc import Iterator
from pathlib import Path

import pytest

import scalecurve_worker as scalecurve
from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, journal_file, rank_file
from scalecurve_api.record.rank import BatchSizes, RankRecord, Usage, WindowKind
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench, batch_size
from scalecurve_worker.sdk.explainer import Explainer
from scalecurve_worker.steps.schedule import LEAD_STEPS
from scalecurve_worker.steps.timing import HostClock, Span
from tests.step_journal import read_rows
from tests.waiting import PATIENCE_S
from tests.worker.worker_ranks import SCRIPTS, launch, make_trial, rank_environment


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trial of 4 warm-up steps and 2 windows of 3, in this process."""
    trial = make_trial(measure={"warmupSteps": 4, "maxWarmupSteps": 4})
    path = tmp_path / "trial.json"
    path.write_text(trial.model_dump_json(by_alias=True))
    monkeypatch.setenv(TRIAL_ENV, str(path))
    monkeypatch.setenv(OUT_ENV, str(tmp_path / "out"))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    return tmp_path / "out"


def test_a_loader_is_repeated_until_every_window_is_measured(out: Path) -> None:
    bench = scalecurve.attach()
    seen = [bench.loss(0.5) or len(batch) for batch in bench.steps([[1, 2, 3], [4, 5]])]
    record = bench.finish()
    assert seen == [3, 2] * 6
    assert [(w.kind, w.index, w.first_step, w.steps, w.samples) for w in record.windows] == [
        (WindowKind.train, 0, 5, 3, 7),
        (WindowKind.train, 1, 9, 3, 7),
    ]
    assert record == RankRecord.model_validate_json((out / rank_file(0)).read_text())
    assert record.warmup is not None
    assert (record.warmup.steps, record.warmup.rule) == (4, "exactly 4 steps")
    assert (record.finite_loss, record.last_loss, record.trial, record.world) == (True, 0.5, "weak-1-r1", 1)
    rows = list(read_rows(out / journal_file(0)))
    assert [(row.step, row.window, row.samples) for row in rows] == [
        (step, window, [3, 2][step % 2]) for step, window in enumerate([-1] * 5 + [0] * 3 + [-1] + [1] * 3)
    ]
    for window in record.windows:
        own = [row for row in rows if row.window == window.index]
        assert own[0].start_ns == window.open_ns
        assert sum(row.duration_ns for row in own) <= window.wall_ns


def test_a_loop_of_ones_own(out: Path) -> None:
    bench = scalecurve.attach()
    steps = 0
    while bench.step(samples=16):
        steps += 1
    assert steps == 12
    assert not bench.step()
    record = bench.finish()
    assert [window.samples for window in record.windows] == [48, 48]
    assert record.batch_sizes == BatchSizes(least=16, most=16, mean=16.0, most_common=1.0)
    assert record.parameter_checksum is None


class Watching(Explainer):
    watches = True


@pytest.mark.parametrize("steps", [13, 16, 999])
def test_a_loop_may_end_before_its_sections_are_timed(out: Path, steps: int) -> None:
    session = Session()
    bench, done = Bench(session, HostClock(session.unix), explainer=Watching()), 0
    while done < steps and bench.step():
        done += 1
    assert bench.complete
    record = bench.finish()
    assert [window.steps for window in record.windows] == [3, 3]
    assert done == min(steps, 12 + 3 + 20)
    assert (record.sections is not None) == (steps > 15)


def test_a_step_without_samples_counts_the_trials_batch(out: Path) -> None:
    bench = scalecurve.attach()
    while bench.step():
        pass
    assert [window.samples for window in bench.finish().windows] == [12, 12]


def test_a_loop_that_is_left_keeps_its_steps_but_not_its_window(out: Path) -> None:
    bench = scalecurve.attach()
    for number, _ in enumerate(bench.steps(range(100))):
        if number == 8:
            break
    record = bench.finish()
    assert [window.index for window in record.windows] == [0]
    assert [row.step for row in read_rows(out / journal_file(0))] == list(range(8))


def test_a_loader_that_gives_nothing(out: Path) -> None:
    bench = scalecurve.attach()

    def once() -> Iterator[int]:
        yield 1

    with pytest.raises(ValueError, match="generator ended and gives no batches"):
        list(bench.steps(once()))
    bench.session.recorder.close()


class Counting:
    """An alternate that says when it was entered and left."""

    kind = WindowKind.no_communication
    method = "test"

    def __init__(self) -> None:
        self.said: list[str] = []

    def enter(self) -> None:
        self.said.append("enter")

    def leave(self) -> None:
        self.said.append("leave")


def test_alternate_windows_are_entered_and_left(out: Path) -> None:
    session = Session()
    alternate = Counting()
    bench = Bench(session, HostClock(session.unix), alternate=alternate)
    kinds = []
    while bench.step():
        kinds.append(bench.kind)
    record = bench.finish()
    assert alternate.said == ["enter", "leave"] * 2
    assert record.exposed_method == "test"
    assert [window.kind.value for window in record.windows] == ["train", "no-communication"] * 2
    assert kinds.count(WindowKind.no_communication) == 3 + 4 + 3 + 4
    assert [window.first_step for window in record.windows] == [5, 12, 19, 26]


class RefillingClock:
    """Steps of 10 ns, but for the first after an opening, which takes 1000; known at the end of a window alone."""

    def __init__(self) -> None:
        self.now = 0
        self.spans: list[Span] = []

    def synchronize(self) -> None:
        pass

    def open(self) -> int:
        self.opened = self.now
        return self.now

    def mark(self) -> int:
        duration = 1000 if self.now == self.opened else 10
        self.spans.append(Span(self.now, duration))
        self.now += duration
        return 0

    def finished(self) -> list[Span]:
        spans, self.spans = self.spans, []
        return spans

    def close(self) -> int:
        return self.now - self.opened


class Meter:
    """A device that takes one mJ a ns."""

    available = True

    def __init__(self, clock: RefillingClock) -> None:
        self.clock = clock

    def energy_mj(self) -> int:
        return self.clock.now

    def usage(self) -> list[Usage]:
        return []

    def resume(self) -> None:
        pass

    def pause(self) -> None:
        pass

    def result(self, ranks: int) -> None:
        pass


def test_the_step_that_fills_an_idle_device_is_in_no_window(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, clock = Session(), RefillingClock()
    bench = Bench(session, clock)
    monkeypatch.setattr(bench._loop.monitor, "_monitors", [Meter(clock)])
    while bench.step():
        pass
    record = bench.finish()
    assert [(w.wall_ns, w.steps, w.samples, w.energy_mj) for w in record.windows] == [(30, 3, 12, 30)] * 2
    rows = list(read_rows(out / journal_file(0)))
    assert [row.duration_ns for row in rows if row.window >= 0] == [10] * 6
    assert [row.duration_ns for row in rows if row.window < 0 and row.step >= 4] == [1000, 1000]
    assert [w.open_ns for w in record.windows] == [next(r.start_ns for r in rows if r.window == i) for i in (0, 1)]


def test_bare_steps_take_turns_with_instrumented_ones(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = make_trial(measure={"warmupSteps": 4, "maxWarmupSteps": 4, "windows": 2, "stepsPerWindow": 30})
    monkeypatch.setenv(TRIAL_ENV, trial.model_dump_json(by_alias=True))
    session, clock = Session(), RefillingClock()
    bench = Bench(session, clock)
    monkeypatch.setattr(bench._loop.monitor, "_monitors", [Meter(clock)])
    bare = 0
    while bench.step():
        bare += bench.bare
        assert bench.kind is WindowKind.train
    record = bench.finish()
    taken = [window for window in record.windows if window.index >= 2]
    assert sorted(window.kind for window in taken) == [WindowKind.bare] * 2 + [WindowKind.instrumented] * 2
    assert bare == 2 * (LEAD_STEPS + 3)
    # The step that fills the idle device is in none, and of the bare ones only two ends are marked.
    assert [(w.wall_ns, w.steps, w.samples) for w in taken if w.kind == "instrumented"] == [(30, 3, 12)] * 2
    assert [w.steps for w in taken if w.kind == "bare"] == [3, 3]
    assert [w.energy_mj for w in taken if w.kind == "bare"] == [None, None]
    rows = list(read_rows(out / journal_file(0)))
    assert [row.step for row in rows] == list(range(len(rows)))
    for window in taken:
        own = [row for row in rows if row.window == window.index]
        assert (len(own), sum(row.duration_ns for row in own)) == (3, window.wall_ns)


def test_a_trial_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setenv(TRIAL_ENV, '{"experiment": 3}')
    with pytest.raises(WorkloadError, match=r"SCALECURVE_TRIAL: not a trial: experiment: .*string"):
        scalecurve.attach()
    monkeypatch.setenv(TRIAL_ENV, str(tmp_path / "absent.json"))
    with pytest.raises(WorkloadError, match=r"absent\.json: cannot be read"):
        scalecurve.attach()


class Shaped:
    def __init__(self, *shape: int) -> None:
        self.shape = shape


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (Shaped(32, 3), 32),
        ((Shaped(8, 3), Shaped(8)), 8),
        ([Shaped(8, 3), ["a"] * 8], 8),
        (UserDict({"x": Shaped(8, 64), "y": Shaped(8)}), 8),
        ((Shaped(8, 3), Shaped()), 8),
        ([], None),
        ([Shaped(8, 3), Shaped(8)], 8),
        ({"x": Shaped(5), "y": Shaped(5)}, 5),
        ({}, None),
        ([1, 2, 3], 3),
        (Shaped(), None),
        (7, None),
        ("text", None),
    ],
)
def test_batch_size(batch: object, size: int | None) -> None:
    assert batch_size(batch) == size


@pytest.mark.parametrize(
    "batch",
    [
        (Shaped(35, 8), Shaped(280)),  # a language model's, sequence first
        Shaped(35, 8),
        ([Shaped(3, 9, 9)] * 8, [{}] * 8),  # detection
        [[Shaped(8, 3), Shaped(8, 3)], Shaped(8)],  # two views
        [{"x": Shaped(3)}] * 8,
        {"x": {"y": Shaped(8)}},
        [Shaped(3, 9, 9)] * 8,
        Shaped(1, 8),  # packed tokens
    ],
)
def test_a_batch_whose_size_must_not_be_guessed(batch: object) -> None:
    with pytest.raises(ValueError, match=r"is not clear \(.*\); pass it: bench.steps\(loader, samples=...\)"):
        batch_size(batch, 8)


def test_time_in_the_loader_is_counted(out: Path) -> None:
    class Slow:
        def __iter__(self) -> Iterator[list[int]]:
            while True:
                time.sleep(0.004)
                yield [0] * 4

    bench = scalecurve.attach()
    for _ in bench.steps(Slow()):
        time.sleep(0.001)
    for window in bench.finish().windows:
        assert window.loader_ns is not None
        assert 3 * 4_000_000 <= window.loader_ns <= window.wall_ns - 3 * 1_000_000


@pytest.mark.parametrize("step_ms", [1, 10, 300])
def test_the_journal_is_less_than_a_second_behind(out: Path, monkeypatch: pytest.MonkeyPatch, step_ms: int) -> None:
    """So a killed process loses no more. A clock of the test's own: a busy machine may stop a rank for longer."""
    now_ns = time.monotonic_ns()
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    monkeypatch.setenv(
        TRIAL_ENV, json.dumps(make_trial(measure={"windows": 1, "stepsPerWindow": 3000 // step_ms}).wire())
    )
    bench = scalecurve.attach()
    behind_ns = []
    for step, _ in enumerate(bench.steps([[0] * 4])):
        bench.loss(0.5)
        written = sum(1 for _ in read_rows(out / journal_file(0))) if step else 0
        behind_ns.append((step - written) * step_ms * 1_000_000)
        now_ns += step_ms * 1_000_000
    assert len(behind_ns) > 3000 // step_ms
    assert 0 < max(behind_ns) < 1_000_000_000


def test_time_in_a_loader_of_torch_is_counted_in_any_loop(out: Path) -> None:
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    loader = data.DataLoader([0] * 400, batch_size=4)
    bench = scalecurve.attach()
    batches = iter(loader)
    while bench.step():
        next(batches)
    assert all(0 < (window.loader_ns or 0) < window.wall_ns for window in bench.finish().windows)


def test_without_an_engine_it_says_what_it_measured(tmp_path: Path) -> None:
    code = (
        "import scalecurve_worker as scalecurve\n"
        "bench = scalecurve.attach()\n"
        "for batch in bench.steps([[0] * 10]):\n    bench.loss(1.0)\n"
        "bench.finish()\n"
    )
    environment = rank_environment(tmp_path, None)
    del environment[OUT_ENV]
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("scalecurve: 1 worker, 5 windows of 50 steps: ")
    assert "samples/s" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_runs_out_of_memory_says_so(tmp_path: Path) -> None:
    script = [sys.executable, str(SCRIPTS / "pure.py")]
    done = launch(tmp_path, script, make_trial(), fails=True, FAIL_AT="5")
    assert "MemoryError: cannot hold it" in done.stderr
    failure = (tmp_path / "rank-0.failure.json").read_text()
    assert '"reason":"OutOfMemory"' in failure
    assert not (tmp_path / rank_file(0)).exists()
