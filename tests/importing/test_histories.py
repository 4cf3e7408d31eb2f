"""Rows with steps are one run over time; batches with their arithmetic; all columns that need a word in one message."""

import json
from pathlib import Path

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.compose import compose
from scalecurve_importing.import_bundle import import_bundle, importer_of
from scalecurve_importing.reading import Reading, SourceError, Unit

NOTHING = Statements()


def read(folder: Path, text: str, name: str = "run.csv", statements: Statements = NOTHING) -> list[Reading]:
    path = folder / name
    path.write_text(text)
    return list(importer_of(path)[1].read(path, statements))


RATES = [50.0] * 5 + [400.0, 200.0] * 8
HEADERS = {
    "global_step": lambda at: str(at * 25),
    "iter": lambda at: str(at + 1),
    "train/global_step": lambda at: str(at * 100),
    "epoch": lambda at: str(at),
    "current_epoch": lambda at: str(at / 4),
    "_timestamp": lambda at: str(1.7e9 + at * 30),
    "timestamp": lambda at: f"2026-02-01T10:{at:02}:00",
    "Step": lambda at: str(at * 10),
}


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("form", ["csv", "json lines"])
def test_rows_of_a_history_are_one_run(tmp_path: Path, header: str, form: str) -> None:
    rows = [{header: HEADERS[header](at), "gpus": 4, "tokens/s": rate} for at, rate in enumerate(RATES)]
    if form == "csv":
        text = "\n".join([f"{header},gpus,tokens/s", *(",".join(map(str, row.values())) for row in rows)])
    else:
        text = "\n".join(json.dumps(row) for row in rows)
    (reading,) = read(tmp_path, text, "run.csv" if form == "csv" else "run.jsonl")
    first = 1 if header in ("global_step", "train/global_step", "Step") else 0  # step 0 is no interval
    rest = RATES[5 + first :]
    assert reading.throughput == pytest.approx(len(rest) / sum(1 / rate for rate in rest))
    assert (reading.unit, reading.place) == (Unit.tokens, "run.csv" if form == "csv" else "run.jsonl")
    assert "skipped as warm-up" in reading.notes[0]


def test_a_history_has_no_interval_over_runs(tmp_path: Path) -> None:
    text = "step,gpus,img/s,mode\n" + "".join(f"{step},2,{100 + step % 3},weak\n" for step in range(1, 41))
    assert len(compose("lab", read(tmp_path, text)).records) == 1


def test_runs_of_one_table_are_told_apart_by_what_they_state(tmp_path: Path) -> None:
    points = ((1, "A", 10), (2, "A", 9), (2, "B", 30))
    rows = [f"{step},{gpus},{device},{gpus * speed}" for gpus, device, speed in points for step in range(20)]
    readings = read(tmp_path, "\n".join(["step,gpus,device,img/s", *rows]))
    assert [reading.throughput for reading in readings] == [pytest.approx(rate) for rate in (10, 18, 60)]


def test_rows_of_ranks_restarts_and_other_metrics(tmp_path: Path) -> None:
    ranks = [f"{step},{rank},4,{10 + (rank == 3)}" for step in range(1, 21) for rank in range(4)]
    (reading,) = read(
        tmp_path, "\n".join(["iter,rank,gpus,step_time_ms", *ranks]), statements=Statements({"global_batch": "8"})
    )
    assert reading.throughput == pytest.approx(8 / 0.011)
    again = [f"{step},2,{rate}" for rate in (10, 20) for step in range(1, 21)]
    assert [r.throughput for r in read(tmp_path, "\n".join(["step,gpus,img/s", *again]))] == [10, 20]
    sparse = [f"{step},2,{'' if step % 2 else 5},{'NaN' if step % 2 else 7}" for step in range(1, 41)]
    (reading,) = read(
        tmp_path, "\n".join(["step,gpus,img/s,acc", *sparse]), statements=Statements(ignored=frozenset({"acc"}))
    )
    assert reading.throughput == pytest.approx(5)


def test_steps_that_each_epoch_counts_anew_are_one_run(tmp_path: Path) -> None:
    rows = [f"{epoch},{step},2,10" for epoch in range(3) for step in range(0, 50, 5)]
    (reading,) = read(tmp_path, "\n".join(["epoch,step,gpus,img/s", *rows]))
    assert reading.throughput == pytest.approx(10)


def test_last_steps_of_runs_are_repetitions(tmp_path: Path) -> None:
    readings = read(tmp_path, "step,gpus,img/s\n900,1,10\n900,1,11\n900,2,20\n")
    assert [(r.workers, r.throughput) for r in readings] == [(1, 10), (1, 11), (2, 20)]


def test_columns_of_charts_of_wandb(tmp_path: Path) -> None:
    head = '"Step","calm-sun-3 - train/tokens_per_second","calm-sun-3 - train/tokens_per_second__MIN",gpus'
    rows = [f"{step},700,1,8" for step in range(1, 31)]
    (reading,) = read(tmp_path, "\n".join([head, *rows]))
    assert reading.throughput == pytest.approx(700)


@pytest.mark.parametrize(
    "header", ["_step,trainer/global_step", "trainer/global_step,_step", "_step,iter", "step,global_step"]
)
def test_of_several_steps_the_runs_own_counts(tmp_path: Path, header: str) -> None:
    own = 1 if header.split(",")[1] in ("iter", "global_step", "trainer/global_step") else 0
    rows = [",".join(["7", str(at * 50)][:: 1 if own else -1]) + ",4,300" for at in range(1, 21)]
    (reading,) = read(tmp_path, "\n".join([f"{header},gpus,tokens/s", *rows]))
    assert reading.notes == ("first 250 of 1000 steps skipped as warm-up",)


def test_elapsed_time_in_a_history_is_asked_about(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"column 'elapsed_s': of one row, or since the start\?"):
        read(tmp_path, "step,gpus,elapsed_s\n1,2,10\n2,2,20\n")


@pytest.mark.parametrize(
    ("text", "batch", "rate", "note"),
    [
        ("gpus,per_device_train_batch_size,gradient_accumulation_steps,step_time_s\n4,8,2,0.5\n", 64, 128,
         "8 × 2 micro-batches × 4 = 64 a step"),
        ("gpus,batch_per_gpu,accumulate_grad_batches,img/s\n2,16,4,10\n", 128, 10,
         "16 × 4 micro-batches × 2 = 128 a step"),
        ("gpus,global_batch,batch_per_gpu,grad_accum,step_time_ms\n2,48,8,3,100\n", 48, 480,
         "8 × 3 micro-batches × 2 = 48 a step"),
        ("gpus,tokens_per_device,step_time_s\n8,4096,2\n", None, 16384, "4096 × 8 = 32768 tokens a step"),
        ("gpus,tokens_per_gpu,grad_accum_steps,step_time_s\n8,4096,4,2\n", None, 65536,
         "4096 × 4 micro-batches × 8 = 131072 tokens a step"),
    ],
)  # fmt: skip
def test_batches_show_their_arithmetic(tmp_path: Path, text: str, batch: int | None, rate: float, note: str) -> None:
    (reading,) = read(tmp_path, text)
    assert (reading.global_batch, reading.throughput, reading.notes) == (batch, pytest.approx(rate), (note,))
    assert reading.unit is (Unit.samples if batch else Unit.tokens)


@pytest.mark.parametrize(
    ("text", "facts", "refusal"),
    [
        ("gpus,batch_per_gpu,grad_accum,global_batch,img/s\n2,8,4,32,9\n", {},
         "32 is not 8 × 4 micro-batches × 2 = 64"),
        ("gpus,batch_per_gpu,grad_accum,img/s\n2,8,4,9\n", {"global_batch": "16"},
         "--set global_batch: 16 is not 8 × 4 micro-batches × 2 = 64"),
        ("gpus,img/s\n2,9\n", {"workers": "4"}, "run.csv, row 2: has workers 2, and --set workers=4 contradicts it"),
        ("gpus,device,img/s\n2,T4,9\n", {"device": "L4"}, "has device T4, and --set device=L4 contradicts it"),
        ("gpus,mode,img/s\n2,weak,9\n", {"mode": "strong"}, "has mode weak, and --set mode=strong contradicts it"),
    ],
)  # fmt: skip
def test_a_table_is_not_contradicted(tmp_path: Path, text: str, facts: dict[str, str], refusal: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(tmp_path, text, statements=Statements(facts))
    assert refusal in str(refused.value)


def test_one_message_states_every_column_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Job id,GPU count x,speed,batch,lr\n7,2,50,8,0.1\n")
    (tmp_path / "b.csv").write_text("Job id,GPU count x,speed,batch,seed\n8,4,90,8,3\n")
    sources = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(SourceError) as refused:
        import_bundle(sources, tmp_path / "out", dry_run=True)
    message = str(refused.value)
    assert message.startswith(
        "a.csv, b.csv: 6 columns need a statement: 'Job id' unknown, 'GPU count x' unknown, 'speed' without a unit, "
        "'batch' of one worker or of all (global_batch), 'lr' unknown, 'seed' unknown; add --ignore 'Job id' --ignore "
        "'GPU count x' --unit speed=UNIT --column batch_per_worker=batch --ignore lr --ignore seed --set workers=N "
        "--set mode=weak; UNIT is samples/s or tokens/s, or per worker: samples/s/worker; for a column that counts, "
    )
    stated = Statements(
        {"mode": "weak"},
        {"workers": "GPU count x", "batch_per_worker": "batch"},
        {"speed": "samples/s"},
        ignored=frozenset({"Job id", "lr", "seed"}),
    )
    composed = import_bundle(sources, tmp_path / "out", statements=stated, dry_run=True)
    assert [record.throughput for record in composed.records] == [pytest.approx(50), pytest.approx(90)]


def test_runs_alike_but_for_their_accumulation_are_not_pooled(tmp_path: Path) -> None:
    table = "gpus,grad_accum_steps,effective_batch_size,step_time_s\n"
    path = tmp_path / "accelerate.csv"
    path.write_text(table + "1,1,32,0.11\n1,4,32,0.02\n2,1,32,0.03\n2,4,32,0.02\n")
    composed = compose("lab", list(importer_of(path)[1].read(path, Statements())))
    points = [(r.trial.point.workers, r.trial.point.axes["parameters.accumulation"]) for r in composed.records]
    assert points == [(1, 1), (1, 4), (2, 1), (2, 4)]


def test_a_curve_may_lower_its_accumulation_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "strong.csv"
    path.write_text("gpus,batch_per_gpu,iters_to_accum,samples/s\n1,8,4,10\n2,8,2,19\n4,8,1,37\n")
    composed = compose("lab", list(importer_of(path)[1].read(path, Statements())))
    assert {record.trial.point.series for record in composed.records} == {"strong"}
    assert {record.trial.point.global_batch for record in composed.records} == {32}


def test_tokens_of_a_group_of_gpus_take_the_batch_that_is_stated(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    path.write_text("# published in 2025\n#-GPUs,GBS,Tokens / sec / GPU\n8,128,1000\n16,256,990\n")
    composed = compose("lab", list(importer_of(path)[1].read(path, Statements())))
    assert [(r.trial.point.global_batch, r.summary.throughput) for r in composed.records if r.summary] == [
        (128, pytest.approx(8000)),
        (256, pytest.approx(15840)),
    ]
