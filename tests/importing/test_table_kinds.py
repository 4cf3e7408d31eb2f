"""Tables of issues, of W&B, of large models and of ScaleCurve's own reports. Shapes are the tools', numbers ours.

https://docs.wandb.ai/models/app/features/runs-table (a row of each run, with the last value of its metrics)
https://github.com/tensorpack/tensorpack/issues/1254, https://github.com/aws-samples/deep-learning-models/issues/2
https://arxiv.org/abs/2104.04473, table 1 (achieved teraFLOP/s per GPU of models that grow)
"""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.curves.compute import scaling
from scalecurve_importing.columns import Statements
from scalecurve_importing.compose import compose
from scalecurve_importing.import_bundle import import_bundle, importer_of
from scalecurve_importing.reading import Reading, SourceError, Unit

NOTHING = Statements()


def read(folder: Path, text: str, name: str = "t.csv", statements: Statements = NOTHING) -> tuple[str, list[Reading]]:
    path = folder / name
    path.write_text(text)
    form, importer = importer_of(path)
    return form, list(importer.read(path, statements))


def rates(readings: list[Reading]) -> list[tuple[int, float | None]]:
    return [(reading.workers, pytest.approx(reading.throughput)) for reading in readings]


MARKDOWN = {
    "bars around": "\n| GPUs | img/sec | efficiency |\n|---|---:|:-:|\n| 1 | 640.5 | 100% |\n| 8 | 4,900 | 96% |\n",
    "bars between": "words | here\n\nGPUs | images/s\n--- | ---\n1 | 640.5\n8 | 4,900\n\nmore\n",
    "marks and links": "|**GPUs**|`img/s`|\n|-|-|\n|1|**640.5**|\n|[8](https://x.example/8)|4,900|\n",
    "another table": "| a | b |\n|---|---|\n| x | y |\n\n| GPUs | img/s |\n|---|---|\n| 1 | 640.5 |\n| 8 | 4,900 |\n",
}


@pytest.mark.parametrize("name", MARKDOWN)
@pytest.mark.parametrize("file", ["README.md", "issue.txt"])
def test_markdown(tmp_path: Path, name: str, file: str) -> None:
    form, readings = read(tmp_path, MARKDOWN[name], file)
    assert (form, rates(readings)) == ("markdown", [(1, 640.5), (8, 4900)])


def test_markdown_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="got '4,900', expected a positive number; write thousands without a"):
        read(tmp_path, "| GPUs | img/s |\n|---|---|\n| 8 | 4,900 |\n", "t.md")
    two = "| GPUs | img/s |\n|---|---|\n| 8 | 9 |\n\n| GPUs | tokens/s |\n|---|---|\n| 8 | 9 |\n"
    with pytest.raises(SourceError, match=r"has 2 tables \(row 3: GPUs, img/s, row 7: GPUs, tokens/s\): keep the one"):
        read(tmp_path, two, "t.md")


@pytest.mark.parametrize(
    ("text", "layouts"),
    [
        ("layout,img/s\n1x8,10\n2x8,20\n", [(8, 1), (16, 2)]),
        ("Nodes x GPUs,img/s,perf/mfu\n1x8,10,0.4\n2 x 8,20,0.4\n", [(8, 1), (16, 2)]),
        ("layout,gpus,img/s\n1 x 8 GPU,8,10\n2×8,16,20\n", [(8, 1), (16, 2)]),
    ],
)  # fmt: skip
def test_layouts(tmp_path: Path, text: str, layouts: list[tuple[int, int]]) -> None:
    _, readings = read(tmp_path, text)
    assert [(reading.workers, reading.nodes) for reading in readings] == layouts
    for row, said in (("8,8", "got '8', expected nodes x workers on each, such as 2x8"),
                      ("2x8,8", "2 nodes with 8 workers on each are not 8 workers")):  # fmt: skip
        with pytest.raises(SourceError, match=said):
            read(tmp_path, f"layout,gpus,img/s\n{row},10\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2d 3h", 183_600),
        ("1h 5m", None),
        ("1h 5min 2s", 3902),
        ("3 days, 2 hours", 266_400),
        ("90 s", 90),
        ("1.5h", 5400),
    ],
)
def test_durations_as_they_are_written(tmp_path: Path, text: str, seconds: float | None) -> None:
    table = f'gpus,training time\n8,"{text}"\n'
    if seconds is None:
        with pytest.raises(SourceError, match="states no unit"):
            read(tmp_path, table)
        return
    _, (reading,) = read(tmp_path, table)
    assert (reading.unit, reading.throughput) == (Unit.runs, pytest.approx(1 / seconds))
    (days,) = read(tmp_path, "gpus,time_days\n8,2\n")[1]
    assert days.throughput == pytest.approx(1 / 172_800)


WANDB = (
    '"Name","State","Notes","User","Created","Runtime","gpus","train/global_step","_timestamp",'
    '"per_device_train_batch_size","train_runtime","train_samples_per_second"\n'
    '"calm-sun-1","finished","-","me","2026-01-01","300","1","400","17.1","32","280","11.5"\n'
    '"dry-moon-2","finished","-","me","2026-01-02","300","4","100","17.2","32","280","40.5"\n'
    '"red-lake-3","crashed","-","me","2026-01-02","20","8","3","17.3","32","","80.1"\n'
)


def test_a_field_under_wandbs_train_is_the_field(tmp_path: Path) -> None:
    table = (
        "Name,State,gpus,train/samples_per_second,train/global_batch_size\na,finished,1,310,64\nb,finished,4,1160,256\n"
    )
    _, readings = read(tmp_path, table)
    assert [(reading.workers, reading.global_batch) for reading in readings] == [(1, 64), (4, 256)]


def test_wandbs_table_of_runs(tmp_path: Path) -> None:
    """Its rows are runs, whatever step and time each ended at; those that did not finish do not count."""
    _, readings = read(tmp_path, WANDB)
    assert rates(readings) == [(1, 11.5), (4, 40.5)]
    assert [reading.global_batch for reading in readings] == [32, 128]
    assert readings[0].notes == (
        "the last value that the run logged, by W&B's table of runs", "1 run skipped: red-lake-3 (crashed)",
    )  # fmt: skip
    assert {record.trial.point.mode.value for record in compose("x", readings).records} == {"weak"}
    with pytest.raises(SourceError, match=r"has no row; 1 run skipped: red-lake-3 \(crashed\)"):
        read(tmp_path, "\n".join([WANDB.splitlines()[0], WANDB.splitlines()[3]]))


GROWING = "model,gpus,TP,PP,batch,achieved TFLOP/s per GPU,MFU\n2B,32,1,1,512,140,45%\n8B,64,4,1,512,133,43%\n"


def test_arithmetic_of_growing_models_is_one_curve(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GROWING)
    composed = import_bundle([path], tmp_path / "b")
    assert {record.trial.point.series for record in composed.records} == {"weak"}
    (series,) = scaling(open_bundles([tmp_path / "b"])).series
    assert [point.efficiency.value for point in series.measured if point.efficiency] == [1, pytest.approx(0.95)]
    assert series.sample_unit == "TFLOP"
    assert "the model grows with the workers (2B on 32, 8B on 64)" in composed.records[0].message


def test_arithmetic_of_one_model_names_what_differs(tmp_path: Path) -> None:
    text = "model,gpus,TP,tflops/gpu,mode\n2B,32,1,140,weak\n2B,32,4,120,weak\n"
    with pytest.raises(SourceError, match="unknown column 'TP'"):
        read(tmp_path, text)
    readings = read(tmp_path, text, statements=Statements(factors=frozenset({"TP"})))[1]
    assert {record.trial.point.series for record in compose("x", readings).records} == {"weak TP=1", "weak TP=4"}


def test_arithmetic_of_one_or_of_all_is_asked(tmp_path: Path) -> None:
    text = "gpus,TFLOPs,mode\n8,1000,weak\n"
    with pytest.raises(SourceError, match="column 'TFLOPs' may be of one worker or of all; add --unit TFLOPs=TFLOP"):
        read(tmp_path, text)
    for unit, rate in (("TFLOP/s", 1000), ("TFLOP/s/worker", 8000)):
        _, (reading,) = read(tmp_path, text, statements=Statements(units={"TFLOPs": unit}))
        assert (reading.throughput, reading.unit) == (pytest.approx(rate), Unit.teraflop)


def test_the_table_of_a_report_of_ones_own(tmp_path: Path) -> None:
    """A bundle of a table, the table of its report, and a bundle of that: the same points."""
    path = tmp_path / "lab.csv"
    rows = ["gpus,gpu,img/s,batch_per_gpu", *(f"{n},{gpu},{90 * n},8" for n in (1, 2, 4) for gpu in ("T4", "L4"))]
    path.write_text("\n".join([*rows, "4,T4,380,8"]))
    import_bundle([path], tmp_path / "lab")
    (tmp_path / "scaling.csv").write_text(scaling(open_bundles([tmp_path / "lab"])).table().csv())
    again = import_bundle([tmp_path / "scaling.csv"], tmp_path / "again")
    assert set(again.formats.values()) == {"scaling-table"}
    first, second = (scaling(open_bundles([tmp_path / name])) for name in ("lab", "again"))

    def points(result: object) -> list[object]:
        return [
            (s.name, p.workers, p.point.layout, p.point.batch_per_worker, round(p.throughput.value))
            for s in result.series for p in s.measured if p.throughput
        ]  # fmt: skip

    assert points(first) == points(second)


OWN = "series,workers,layout,trials,throughput,throughput_low,throughput_high,sequences,step_ms,effective_batch\n"


@pytest.mark.parametrize(
    ("row", "unit"),
    [("weak,2,1x2,3/3,64,60,68,,500,32", Unit.samples), ("weak,2,1x2,3/3,64000,6,68,64,500,32", Unit.tokens)],
)
def test_what_a_table_of_ones_own_counts(tmp_path: Path, row: str, unit: Unit) -> None:
    _, (reading,) = read(tmp_path, OWN + row)
    assert (reading.unit, reading.notes[0]) == (unit, "mean of 3 repetitions")
    with pytest.raises(SourceError, match="its batch and step do not say what its throughput counts"):
        read(tmp_path, OWN + "weak,2,1x2,3/3,64000,6,68,,500,32")
