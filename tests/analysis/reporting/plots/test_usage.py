"""How busy devices were: GPUs where NVML told, else the cores."""

from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting.findings import Analysis, analyze
from scalecurve.reporting.plots.usage import usage, usage_over_time
from scalecurve_api.record.rank import DeviceSamples, Usage
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import experiment, write_bundle

EXPERIMENT = experiment("busy", modes=["weak"], workers=[1, 2], repetitions=1)


def cores(record: TrialRecord) -> TrialRecord:
    return record.model_copy(update={"own_load": [0.9, 0.5][: record.trial.point.workers]})


def devices(record: TrialRecord) -> TrialRecord:
    samples = [DeviceSamples(count=3, utilization_mean=0.8)] * record.trial.point.workers
    return cores(record).model_copy(update={"device_samples": samples})


def analysis(folder: Path, **arguments: object) -> Analysis:
    return analyze([open_bundle(write_bundle(folder, EXPERIMENT, tables=False, **arguments))])  # type: ignore[arg-type]


def test_cores_where_there_is_no_gpu(tmp_path: Path):
    drawing = usage(analysis(tmp_path / "cpu", change=cores))
    assert drawing is not None
    assert (drawing.title, [tip.partition(", ")[2] for tip in drawing.tips]) == (
        "CPU usage",
        ["1 worker: 90 % busy", "2 workers: 70 % busy"],
    )


def test_gpus_where_nvml_told(tmp_path: Path):
    drawing = usage(analysis(tmp_path / "gpu", change=devices))
    assert drawing is not None
    assert drawing.title == "GPU usage"
    assert all(tip.endswith("80 % busy") for tip in drawing.tips)


def test_a_point_with_a_run_without_a_sample_is_neither_drawn_nor_in_the_table(tmp_path: Path):
    def one_short(record: TrialRecord) -> TrialRecord:
        of_short = record.trial.point.workers == 1 and record.trial.repetition == 1
        return record.model_copy(update={"device_samples": [None]}) if of_short else devices(record)

    twice = experiment("busy", modes=["weak"], workers=[1, 2], repetitions=2)
    found = analyze([open_bundle(write_bundle(tmp_path / "b", twice, tables=False, change=one_short))])
    drawing = usage(found)
    assert drawing is not None
    assert [tip.partition(", ")[2] for tip in drawing.tips] == ["2 workers: 80 % busy"]
    assert drawing.caption.endswith("Omitted: 1 point with a rank or run that has no sample.")
    (series,) = found.curves.series
    assert [point.busy for point in series.points] == [None, 0.8]


def test_series_of_one_worker_count_stand_beside_each_other(tmp_path: Path):
    of = experiment("e", modes=["weak"], workers=[2], repetitions=1, matrix={"batch.perWorker": [8, 32, 128]})
    drawing = usage(analyze([open_bundle(write_bundle(tmp_path / "b", of, tables=False, change=cores))]))
    assert drawing is not None
    (panel,) = drawing.figure.axes
    assert panel.get_xlabel() == "batch.perWorker, 2 workers"
    assert [label.get_text() for label in panel.get_xticklabels()] == ["8", "32", "128"]
    assert [tip.partition(",")[0] for tip in drawing.tips] == [f"batch.perWorker={size}" for size in (8, 32, 128)]


def test_nothing_where_nothing_was_recorded(tmp_path: Path):
    assert usage(analysis(tmp_path / "none")) is None


def test_strong_and_weak_are_two_lines_that_stand_apart(tmp_path: Path):
    both = experiment("both", modes=["strong", "weak"], workers=[1, 2], repetitions=1)
    drawing = usage(analyze([open_bundle(write_bundle(tmp_path / "b", both, tables=False, change=cores))]))
    assert drawing is not None
    (legend,) = drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["strong", "weak"]
    lines = [line for line in drawing.figure.axes[0].get_lines() if line.get_label() in ("strong", "weak")]
    assert lines[0].get_color() != lines[1].get_color()
    assert list(lines[0].get_xdata()) < list(lines[1].get_xdata())


def watched(record: TrialRecord) -> TrialRecord:
    """Two seconds of half of the cores, then four of all, on every rank of two workers; one worker saw nothing."""
    over_time = [Usage(until_s=2.0, share=0.5), Usage(until_s=6.0, share=1.0)]
    workers = record.trial.point.workers
    return cores(record).model_copy(update={"usage": [over_time] * workers if workers == 2 else []})


def test_usage_over_time_is_a_panel_a_worker_count_and_a_line_a_rank(tmp_path: Path):
    drawing = usage_over_time(analysis(tmp_path / "b", change=watched))
    assert drawing is not None
    assert drawing.title == "CPU usage over time"
    (panel,) = drawing.figure.axes
    assert panel.get_title(loc="left") == "2 workers"
    first, second, *_ = panel.get_lines()
    for line in (first, second):
        assert list(line.get_xdata()) == [0.0, 2.0, 6.0]
        assert list(line.get_ydata()) == [0.5, 0.5, 1.0]
    assert drawing.tips == ("measured, 2 workers: 75 % busy",)


def test_usage_of_a_gpu_over_time_is_named_so(tmp_path: Path):
    drawing = usage_over_time(analysis(tmp_path / "b", change=lambda record: watched(devices(record))))
    assert drawing is not None
    assert drawing.figure.axes[0].get_ylabel() == "GPU utilization"


def test_records_without_usage_over_time_draw_none(tmp_path: Path):
    assert usage_over_time(analysis(tmp_path / "b", change=cores)) is None


def test_series_over_time_come_in_the_order_of_the_other_plots(tmp_path: Path):
    of = experiment("e", modes=["weak"], workers=[2], repetitions=1, matrix={"batch.perWorker": [32, 128, 512]})
    drawing = usage_over_time(analyze([open_bundle(write_bundle(tmp_path / "b", of, tables=False, change=watched))]))
    assert drawing is not None
    (legend,) = drawing.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"batch.perWorker={size}" for size in (32, 128, 512)]
