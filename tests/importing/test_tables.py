"""Tables from elsewhere: units are stated or asked for, and every mistake names its row and column."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_importing.columns import FIELDS, Statements, meaning
from scalecurve_importing.compose import compose
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.reading import Reading, SourceError, Unit

NOTHING = Statements()


def read(folder: Path, text: str, name: str = "lab.csv", statements: Statements = NOTHING) -> list[Reading]:
    path = folder / name
    path.write_text(text)
    return list(importer_of(path)[1].read(path, statements))


def refusal(folder: Path, text: str, name: str = "lab.csv", statements: Statements = NOTHING) -> str:
    with pytest.raises(SourceError) as refused:
        compose("lab", read(folder, text, name, statements))
    assert "\n" not in str(refused.value)
    return str(refused.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("header", "spelled"),
    [
        ("images/sec", "samples/s over all workers"),
        ("samples_per_second", "samples/s over all workers"),
        ("Throughput (img/s)", "samples/s over all workers"),
        ("tokens/s/GPU", "tokens/s of one worker"),
        ("examples/s per node", "samples/s of one node"),
        ("step_time_ms", "ms"),
        ("Iteration time (s)", "s"),
        ("ms/step", "ms"),
        ("training_time_min", "min"),
        ("time (mm:ss)", "mm:ss"),
        ("duration_h_mm_ss", "h:mm:ss"),
    ],
)
def test_a_header_states_its_unit(header: str, spelled: str) -> None:
    meant = meaning(header, "lab.csv", NOTHING)
    assert meant is not None
    assert meant.spelled == spelled


def test_throughput_of_all_workers_comes_from_that_of_one(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "gpus,tokens/s/gpu,mode\n8,1000,weak\n")
    assert (row.throughput, row.unit) == (8000, Unit.tokens)


def test_step_times_need_the_batch(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "workers,step_time_ms,batch_per_gpu\n4,200,32\n")
    assert (row.throughput, row.global_batch) == (pytest.approx(640), 128)
    assert refusal(tmp_path, "workers,step_time_ms\n4,200\n") == (
        "lab.csv, row 2, column 'step_time_ms': needs the batch: a column batch_per_worker or global_batch, or --set"
    )


def test_run_times_count_runs_or_the_samples_that_are_stated(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "gpus,time (mm:ss)\n1,11:02\n")
    assert (row.throughput, row.unit) == (pytest.approx(1 / 662), Unit.runs)
    (row,) = read(tmp_path, "gpus,time (mm:ss)\n1,11:02\n", statements=Statements({"samples": "66200"}))
    assert (row.throughput, row.unit) == (pytest.approx(100), Unit.samples)


def test_json_is_a_list_of_objects_or_lines(tmp_path: Path) -> None:
    listed = read(tmp_path, '[{"workers": 2, "images/s": 10, "mode": "weak"}]', "lab.json")
    lines = read(tmp_path, '{"workers": 2, "images/s": 10, "mode": "weak"}\n' * 2, "lab.jsonl")
    inside = read(tmp_path, '{"date": "x", "results": [{"workers": 2, "images/s": 10}]}', "lab.json")
    assert [row.throughput for row in (*listed, *lines, *inside)] == [10] * 4
    assert lines[1].place == "lab.jsonl, entry 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers,throughput\n1,5\n", "lab.csv: column 'throughput' states no unit; add --unit throughput=UNIT, which "
         "is samples/s or tokens/s, or per worker: samples/s/worker"),
        ("workers,step_time\n1,5\n", "lab.csv: column 'step_time' states no unit; add --unit step_time=UNIT, which is "
         "s, ms or us"),
        ("workers,img/s,batch\n1,5,32\n", "lab.csv: column 'batch' may be of one worker or of all; add --column "
         "batch_per_worker=batch or --column global_batch=batch"),
        ("workers,img/s\n1,5\n2,x\n", "lab.csv, row 3, column 'img/s': got 'x', expected a positive number"),
        ('workers,img/s\n1,"1,234"\n', "lab.csv, row 2, column 'img/s': got '1,234', expected a positive number; write "
         "thousands without a separator"),
        ("workers,img/s\n1.5,5\n", "lab.csv, row 2, column 'workers': got '1.5', expected a positive whole number"),
        ("workers,img/s\n1,5,6\n", "lab.csv, row 2: expected 2 values, got 3"),
        ("workers,img/s,gpus\n1,5,1\n", "lab.csv, row 2: columns 'workers' and 'gpus' are both workers"),
        ("img/s\n5\n", "lab.csv, row 2: states no worker count; add a column workers, or --set workers=N"),
        ("workers\n5\n", "lab.csv, row 2: has no result; expected throughput (as images/s), step_time (as "
         "step_time_ms), time or speedup"),
        ("workers,img/s\n1,5\n2,9\n", "lab.csv, row 2: strong or weak scaling? add a column mode or the batch, or "
         "--set mode=weak"),
        ("workers,nodes,img/s\n3,2,5\n", "lab.csv, row 2, column 'nodes': 3 workers do not spread evenly over 2 nodes"),
        ("workers,time_mm_ss\n1,11:72\n", "lab.csv, row 2, column 'time_mm_ss': got '11:72', expected mm:ss"),
        ("workers,img/s,mode,price_per_gpu_hour,device\n1,5,weak,0.35,T4\n1,9,weak,2.48,V100\n",
         "the sources have several prices of a worker's hour (0.35 USD, 2.48 USD), a bundle has one: import each "
         "device into a bundle of its own, and give all of them to report, cost or fit"),
        ("workers,img/s,mode,tokens/s\n1,5,weak,\n1,,weak,7\n",
         "the sources count in samples, tokens; import each into a bundle of its own"),
        ("workers,img/s,mode,repetition\n2,5,weak,1\n2,5,weak,2\n2,5,weak,1\n",
         "lab.csv, row 4: has repetition 1 of 2 workers again, as lab.csv, row 2 has it: remove one of them"),
        ("", "lab.csv: is empty; expected a header and a row for each run"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == message


def test_an_option_is_suggested_as_a_shell_takes_it(tmp_path: Path) -> None:
    message = refusal(tmp_path, "workers,img/s,mode,Job turnaround\n1,5,weak,535\n")
    assert "--column 'FIELD=Job turnaround', --factor 'Job turnaround' or --ignore 'Job turnaround' (" in message


def test_an_unknown_column_is_refused_and_may_be_a_factor(tmp_path: Path) -> None:
    text = "workers,img/s,mode,driver\n1,5,weak,535\n1,6,weak,550\n"
    message = refusal(tmp_path, text)
    assert message.startswith("lab.csv: unknown column 'driver'; state what it is with --column FIELD=driver")
    assert message.endswith(f"(fields: {', '.join(FIELDS)})")
    composed = compose("lab", read(tmp_path, text, statements=Statements(factors=frozenset({"driver"}))))
    assert [record.trial.point.series for record in composed.records] == ["weak driver=535", "weak driver=550"]
    ignored = compose("lab", read(tmp_path, text, statements=Statements(ignored=frozenset({"driver"}))))
    assert [record.trial.repetition for record in ignored.records] == [0, 1]


def test_units_and_columns_are_stated(tmp_path: Path) -> None:
    stated = Statements({"mode": "weak"}, {"workers": "N"}, {"rate": "tokens/s/gpu"})
    (row,) = read(tmp_path, "N,rate\n4,100\n", statements=stated)
    assert (row.workers, row.throughput, row.unit) == (4, 400, Unit.tokens)


@pytest.mark.parametrize(("batches", "mode"), [(("32", "32", "32"), "weak"), (("64", "32", "16"), "strong")])
def test_the_mode_follows_from_the_batch_that_stays(tmp_path: Path, batches: tuple[str, ...], mode: str) -> None:
    rows = "".join(f"{n},{100 * n},{batch}\n" for n, batch in zip((1, 2, 4), batches, strict=True))
    composed = compose("lab", read(tmp_path, f"gpus,images/s,batch_per_gpu\n{rows}"))
    assert {record.trial.point.mode.value for record in composed.records} == {mode}


@settings(max_examples=60)
@given(
    rate=st.floats(1e-3, 1e9),
    batch=st.none() | st.integers(1, 4096),
    workers=st.integers(1, 4096),
)
def test_a_stated_rate_is_the_rate_of_the_record(
    tmp_path_factory: pytest.TempPathFactory, rate: float, batch: int | None, workers: int
) -> None:
    folder = tmp_path_factory.mktemp("rate")
    header, cell = (",batch_per_worker", f",{batch}") if batch else ("", "")
    text = f"workers,samples/s,mode{header}\n{workers},{rate!r},weak{cell}\n"
    (record,) = compose("lab", read(folder, text)).records
    assert record.throughput == pytest.approx(rate, rel=1e-6)
    assert record.imported
    if batch:
        (window,) = record.windows
        assert window.samples == window.steps * batch * workers
