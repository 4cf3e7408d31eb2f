"""A log is steps of runs: restarts, ranks, rates that cover steps, and batches that grow."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import import_bundle, importer_of
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.run_lines import StepLine, runs_of
from tests.importing.test_run_files import event, events, mlperf


def megatron(step: int, seconds: float, batch: int = 64) -> str:
    return (
        f" [2026-05-01 08:00] iteration {step:8}/  900 | consumed samples: {step * batch:9} | elapsed time per "
        f"iteration (ms): {seconds * 1e3:.1f} | global batch size: {batch:5} | lm loss: 2.5E+00 |"
    )


def titan(step: int, rate: float) -> str:
    return f"[titan] 2026-05-01 08:00:00,000 - root - INFO - step: {step:2}  loss:  4.1  tps: {rate:,.0f}  mfu: 40.1%"


def nemo(step: int, seconds: float) -> str:
    return f"global_batch_size: 64 | global_step: {step} | reduced_train_loss: 9.1 | train_step_timing in s: {seconds}"


def maxtext(step: int, seconds: float) -> str:
    return f"completed step: {step}, seconds: {seconds}, Tokens/s/device: {800 / seconds}, loss: 9.0"


def read(folder: Path, lines: Iterable[str], **facts: str) -> list[Reading]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return list(importer_of(path)[1].read(path, Statements({"workers": "4", **facts})))


STEADY = {"megatron": (megatron, 128.0), "nemo": (nemo, 128.0), "maxtext": (maxtext, 6400.0)}


@pytest.mark.parametrize("form", STEADY)
def test_a_step_that_goes_back_begins_another_run(tmp_path: Path, form: str) -> None:
    line, rate = STEADY[form]
    first = [line(step, 9.0 if step < 6 else 0.5) for step in range(1, 31)]
    second = [line(step, 9.0 if step < 26 else 0.5) for step in range(21, 61)]
    readings = read(tmp_path, [*first, "restarting from step 20", *second])
    assert [reading.throughput for reading in readings] == [pytest.approx(rate)] * 2
    assert [reading.place for reading in readings] == ["train.log, lines 1 to 30", "train.log, lines 32 to 71"]
    assert "2 runs (the step goes back in line 32)" in readings[0].notes


def test_a_start_that_soon_ended_is_left_out(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, [megatron(step, 5.0) for step in (1, 2, 3)] + [megatron(n, 0.5) for n in range(1, 31)])
    assert reading.throughput == pytest.approx(128)
    assert "1 run of 5 lines or fewer skipped" in reading.notes


def test_a_slow_line_counts_and_is_named(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, [megatron(step, 30.5 if step == 17 else 0.5) for step in range(1, 26)])
    assert reading.throughput == pytest.approx(64 * 20 / 40)
    assert reading.notes[-1] == (
        "step 17: up to 30.5 s, 61 times the median (checkpoint, evaluation or stall?); counted, 128 samples/s without"
    )


def test_rates_of_lines_that_cover_equal_steps_have_a_harmonic_mean(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, [titan(step, 100 if step % 40 == 0 else 1000) for step in range(10, 260, 10)])
    slow = 5  # of the 20 lines after the first five: 80, 120, ... 240
    assert reading.throughput == pytest.approx(4 * 20 / (slow / 100 + (20 - slow) / 1000))
    assert reading.notes[0] == "first 50 of 250 steps skipped as warm-up"


def test_a_line_counts_by_the_steps_it_covers(tmp_path: Path) -> None:
    """The first iteration may have a line of its own, whatever the interval."""
    (reading,) = read(tmp_path, [megatron(1, 40.0), *(megatron(step, 0.5) for step in range(20, 420, 20))])
    assert reading.throughput == pytest.approx(128)
    assert reading.notes == ("first 100 of 400 steps skipped as warm-up",)
    (reading,) = read(tmp_path, [titan(step, 100) for step in range(1, 11)] + [titan(step, 900) for step in (50, 100)])
    assert reading.throughput == pytest.approx(4 * (6 + 90) / (6 / 100 + 90 / 900), rel=0.1)


def test_a_scalar_of_tensorboard_counts_by_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(events("throughput(tps)", [50.0] * 5 + [1000.0, 100.0] * 10))
    (reading,) = importer_of(path)[1].read(path, Statements({"workers": "4"}))
    assert reading.throughput == pytest.approx(4 * 2 / (1 / 1000 + 1 / 100))


def test_event_files_of_a_restart_are_two_runs_and_folders_are_not_pooled(tmp_path: Path) -> None:
    for at in (1, 2):
        (tmp_path / f"events.out.tfevents.{at}").write_bytes(events("throughput(tps)", [10.0] * 5 + [at * 100.0] * 20))
    readings = importer_of(tmp_path)[1].read(tmp_path, Statements({"workers": "4"}))
    assert [reading.throughput for reading in readings] == [pytest.approx(400), pytest.approx(800)]
    (tmp_path / "rank1").mkdir()
    (tmp_path / "events.out.tfevents.2").rename(tmp_path / "rank1" / "events.out.tfevents.2")
    with pytest.raises(SourceError, match="2 folders in it have tag"):
        importer_of(tmp_path)[1].read(tmp_path, Statements({"workers": "4"}))


def test_mlperfs_rates_have_a_harmonic_mean(tmp_path: Path) -> None:
    rates = [100.0, 100.0, 1000.0, 100.0]
    tracked = [event(1001 + n, "tracked_stats", {"throughput": rate}, step=n) for n, rate in enumerate(rates)]
    (reading,) = read(tmp_path, [mlperf(*tracked)])
    assert reading.throughput == pytest.approx(3 / (2 / 100 + 1 / 1000))


RANKS: dict[str, Callable[[int], str]] = {
    "torchrun": lambda rank: f"[rank{rank}]: ",
    "srun": lambda rank: f"{rank}: ",
    "mpirun": lambda rank: f"[1,{rank}]<stdout>:",
    "Ray": lambda rank: f"(Trainer pid={900 + rank}) ",
    "pods": lambda rank: f"[pod/w-{rank}/main] ",
    "none": lambda rank: "",
}


@pytest.mark.parametrize("launcher", RANKS)
def test_lines_of_ranks_are_not_pooled(tmp_path: Path, launcher: str) -> None:
    """Each rank's first step is slow: warm-up is each rank's; a step lasts until the slowest is done."""
    lines = [
        RANKS[launcher](rank) + megatron(step, (20.0 if step < 6 else 0.5) + (0.3 if rank == 2 else 0))
        for step in range(1, 31)
        for rank in range(4)
    ]
    (reading,) = read(tmp_path, lines)
    assert reading.throughput == pytest.approx(64 / 0.8)
    assert sum(part.steps or 0 for part in reading.stretches) == 25
    assert any("lines of 4 processes: the slowest" in note and "differ by 60 %" in note for note in reading.notes)


def test_a_step_that_is_said_twice_counts_once(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, [megatron(1, 9.0), *(megatron(step, 0.5) for step in range(1, 31))])
    assert reading.notes == ("first 5 of 30 steps skipped as warm-up",)


def test_steps_that_jump_between_unnamed_processes_are_refused() -> None:
    steps = [1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6]
    with pytest.raises(
        SourceError, match=r"its steps go back 3 times \(in lines 2, 6, 10\): lines of several processes"
    ):
        runs_of([StepLine(at, step, 1.0, work=8) for at, step in enumerate(steps)], "train.log")


def test_each_lines_own_batch_counts(tmp_path: Path) -> None:
    (reading,) = read(tmp_path, [megatron(step, 0.5, 32 if step < 16 else 128) for step in range(1, 26)])
    assert reading.throughput == pytest.approx((10 * 32 + 10 * 128) / 10)
    assert reading.global_batch is None
    assert "the batch varies, from 32 to 128: each line counts by its own" in reading.notes


@pytest.mark.parametrize(
    ("batches", "facts", "refusal"),
    [
        ((64,), {"global_batch": "128"}, "train.log: has global_batch 64, and --set global_batch=128 contradicts it"),
        ((64,), {"batch_per_worker": "64"}, "64 is not 4 workers x 64 per worker"),
        ((32, 128), {"global_batch": "128"}, "has global batches of 32, 128 samples, and --set global_batch=128"),
        ((32, 128), {"batch_per_worker": "8"}, "has global batches of 32, 128 samples, and --set batch_per_worker=8"),
        ((64,), {"nodes": "2", "workers_per_node": "4"}, "2 nodes with 4 workers on each are not 4 workers"),
    ],
)
def test_what_is_stated_must_not_contradict_the_log(
    tmp_path: Path, batches: tuple[int, ...], facts: dict[str, str], refusal: str
) -> None:
    lines = [megatron(step, 0.5, batches[step * len(batches) // 30]) for step in range(30)]
    with pytest.raises(SourceError, match=refusal):
        read(tmp_path, lines, **facts)
    assert read(tmp_path, lines[:15], **({"global_batch": "64.0"} if batches == (64,) else {}))


@pytest.mark.parametrize(
    "said",
    [
        "using world size: 16, data-parallel size: 16, tensor-model-parallel size: 1",
        "  world_size ...................................... 16",
        "0: System Information: Num_devices: 16",
        "Number of GPUs: 16",
        "All distributed processes registered. Starting with 16 processes",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16",
    ],
)
def test_workers_that_a_log_states_are_not_asked_for_and_not_contradicted(tmp_path: Path, said: str) -> None:
    path = tmp_path / "train.log"
    path.write_text("\n".join([said, *(megatron(step, 0.5) for step in range(1, 31))]))
    form, importer = importer_of(path)
    (reading,) = importer.read(path, Statements())
    assert (form, reading.workers) == ("megatron", 16)
    with pytest.raises(SourceError, match=r"train\.log: has workers 16, and --set workers=8 contradicts it"):
        importer.read(path, Statements({"workers": "8"}))
    path.write_text(path.read_text() + "\nNumber of GPUs: 32\n")
    with pytest.raises(SourceError, match="has runs of 16, 32 workers: split it"):
        importer.read(path, Statements())


def test_files_of_ranks_are_no_repetitions(tmp_path: Path) -> None:
    for name in ("rank0.log", "rank1.log", "run-a/rank0.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(megatron(step, 0.5) for step in range(1, 31)))
    stated = Statements({"workers": "4", "mode": "weak"})
    with pytest.raises(SourceError, match=r"rank0\.log, rank1\.log: ranks of one run, and no repetitions: import one"):
        import_bundle([tmp_path / "rank0.log", tmp_path / "rank1.log"], tmp_path / "out", statements=stated)
    runs = [tmp_path / "rank0.log", tmp_path / "run-a" / "rank0.log"]
    assert len(import_bundle(runs, tmp_path / "out", statements=stated, dry_run=True).records) == 2
    counts = [Statements({"workers": workers, "mode": "strong"}) for workers in ("1", "4")]
    runs = [tmp_path / "rank0.log", tmp_path / "rank1.log"]
    assert len(import_bundle(runs, tmp_path / "out", statements=counts, dry_run=True).records) == 2
