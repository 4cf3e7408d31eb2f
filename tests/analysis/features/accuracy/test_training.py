import base64
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.bundle.trial import Trial
from scalecurve.cli import cli
from scalecurve.features.accuracy.plots.accuracy import mean_error
from scalecurve.features.accuracy.results import training
from scalecurve.features.accuracy.results.tables import accuracy_table
from scalecurve.reporting import report
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.mean import mean
from scalecurve_api.features.accuracy.facts import EVALUATIONS, Evaluation
from scalecurve_api.features.noise_scale.facts import NoiseScaleRow
from scalecurve_api.features.quantization.facts import LayerHistogram, QuantizationFacts, QuantizedRow
from scalecurve_api.record.facts.dataset import DATASET, DatasetFacts, Picture
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialSpec
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import with_facts

NEW = {"error", "classes", "fit", "training-axes", "pictures", "noise-scale", "quantization", "quantization-histograms"}
TRAINED = experiment(
    "trained",
    modes=["weak"],
    workers=[1],
    repetitions=3,
    windows=2,
    steps_per_window=5,
    workload={"model": "resnet20", "data": {"source": "digits"}},
    matrix={"data.instances": [1, 2, 4, 8, 16, 32]},
    measure={
        "windows": 2,
        "stepsPerWindow": 5,
        "repetitions": 3,
        "accuracy": {"epochs": 12, "target": 0.9, "noiseScale": True, "quantization": {"bits": [8, 4, 2]}},
    },
)


def copies(trial: TrialSpec) -> int:
    return int(trial.point.axes["data.instances"])


def learnt(trial: TrialSpec) -> list[Evaluation]:
    """More copies learn faster an epoch, a repetition a little faster than the one before; M = 1 never gets there."""
    rate = 0.08 + 0.05 * math.log2(copies(trial)) + 0.005 * trial.repetition
    out = []
    for epoch in range(1, 13):
        accuracy = min(0.985, (0.85 if copies(trial) == 1 else 1) * (1 - math.exp(-rate * epoch * 1.6)))
        out.append(
            Evaluation(
                epoch=epoch,
                step=epoch * 20,
                wall_s=epoch * (1.0 + copies(trial) / 4),
                train_loss=1 / epoch,
                loss=1 / epoch,
                accuracy=accuracy,
                train_accuracy=min(1.0, accuracy + 0.01),
            )
        )
    return out


def picture(label: int, side: int) -> Picture:
    rng = np.random.default_rng(label)
    image = rng.integers(0, 256, (3, side, side)).astype(np.uint8)
    cut = image.copy()
    cut[:, 2:6, 1:5] = 0
    original, trained = (base64.b64encode(each.tobytes()).decode() for each in (image, cut))
    return Picture(label=label, shape=[3, side, side], original=original, trained=trained)


def facts() -> DatasetFacts:
    return DatasetFacts(
        train=300,
        val=60,
        class_counts=[90, 110, 100],
        class_names=["cat", "<b>dog</b>", "frog"],
        pictures=[picture(label, 12) for label in (0, 1, 2, 1)],
    )


def noisy(trial: TrialSpec) -> list[NoiseScaleRow]:
    return [
        NoiseScaleRow(
            epoch=epoch,
            steps=20,
            small_batch=32,
            large_batch=64,
            small_norm2=2.0,
            large_norm2=1.5,
            gradient2=1.0 / epoch,
            trace=50.0,
            simple=None if epoch == 1 and trial.repetition == 1 else 50.0 * epoch * (1 + 0.1 * trial.repetition),
        )
        for epoch in (1, 2, 3, 4)
    ]


def whole_numbers(trial: TrialSpec) -> QuantizationFacts:
    rows = []
    for bits in (8, 4, 2):
        for scheme in ("tensor", "channel"):
            stages = ["weights", "activations", "biases", *(["torch"] if bits == 8 else [])]
            for worse, stage in enumerate(stages):
                error = 2.0 ** (1 - bits) * (1 + worse) * (0.7 if scheme == "channel" else 1.0)
                rows.append(
                    QuantizedRow.model_validate(
                        {
                            "scheme": scheme,
                            "stage": stage,
                            "bits": bits,
                            "accuracy": max(0.1, 0.97 - error / 2 - 0.002 * trial.repetition),
                            "loss": 0.1 + error,
                            "bytes": 1000 * bits + 40,
                            "error": error,
                        }
                    )
                )
    counts = [int(1000 * math.exp(-(((i - 24) / 8) ** 2))) for i in range(48)]
    histograms = [
        LayerHistogram.model_validate(
            {"layer": f"stages.{i}.body.0", "kind": kind, "low": low, "high": 1.5, "counts": counts}
        )
        for i in range(9)
        for kind, low in (("weights", -1.5), ("biases", -0.5), ("activations", 0.0))
    ]
    return QuantizationFacts(
        parameters=8000, float_bytes=32_000, float_accuracy=0.97, float_loss=0.1, rows=rows, histograms=histograms
    )


def noisy_row(**changes: object) -> dict[str, object]:
    row = {"epoch": 1, "steps": 2, "small_batch": 4, "large_batch": 8, "small_norm2": 2.0, "large_norm2": 1.5}
    return {**row, "gradient2": 1.0, "trace": 50.0, "simple": 50.0, **changes}


def quantized_with(**changes: object) -> QuantizationFacts:
    row = QuantizedRow(scheme="tensor", stage="weights", bits=8, accuracy=0.9, loss=0.1, bytes=9, error=0.1)
    rows = [row.model_copy(update=changes)]
    return QuantizationFacts(parameters=1, float_bytes=4, float_accuracy=0.9, float_loss=0.1, rows=rows)


def looked_at(record: TrialRecord) -> TrialRecord:
    return with_facts(
        record,
        dataset=facts(),
        noiseScale=noisy(record.trial),
        quantization=whole_numbers(record.trial) if copies(record.trial) <= 2 else None,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(
        tmp_path_factory.mktemp("trained") / "bundle", TRAINED, tables=False, evaluations=learnt, change=looked_at
    )


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Bundle:
    opened = open_bundle(folder)
    assert opened.problems == ()
    return opened


def by_hand(values: list[float], quantile: float) -> tuple[float, float]:
    centre = sum(values) / len(values)
    deviation = math.sqrt(sum((v - centre) ** 2 for v in values) / (len(values) - 1))
    half = quantile * deviation / math.sqrt(len(values))
    return centre - half, centre + half


def test_mean_by_hand():
    found = mean([0.90, 0.92, 0.94])
    assert found.value == pytest.approx(0.92)
    assert (found.low, found.high) == pytest.approx(by_hand([0.90, 0.92, 0.94], 4.302653), rel=1e-6)
    assert found.method is Method.REPETITIONS


def test_an_accuracy_stays_within_0_and_1():
    high = mean([0.99, 1.0, 0.96], least=0, most=1)
    low = mean([0.0, 0.01, 0.05], least=0, most=1)
    assert (high.high, low.low) == (1.0, 0.0)


def test_an_interval_that_holds_everything_is_not_known():
    assert mean([0.0, 1.0], least=0, most=1).unknown
    assert mean([1.0, 100.0], least=0).unknown, "seconds: 50.5 (0 to 679)"
    assert not mean([0.0, 0.001], least=0, most=1).unknown, "an accuracy of at most 0.7 %"
    assert mean([0.3, 0.4, 0.7], least=0, most=1).unknown, "more than half of what an accuracy can be"
    assert mean([40.0, 50.0], least=0).unknown, "seconds: 45 (0 to 109)"
    assert not mean([44.0, 45.0], least=0).unknown


def test_one_value_has_no_interval():
    found = mean([0.5])
    assert (found.low, found.high, found.method) == (None, None, Method.NONE)


@pytest.mark.parametrize("values", [[], [math.nan], [1.5], [-0.1, 0.5]])
def test_what_has_no_mean_is_refused(values: list[float]):
    with pytest.raises(ValueError, match=r"mean needs values|must be finite and lie in"):
        mean(values, least=0, most=1)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_a_mean_lies_in_its_interval(values: list[float]):
    found = mean(values, least=0, most=1)
    if found.unknown:
        return
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert min(values) <= found.value <= max(values)
    if len(set(values)) == 1:
        assert found.low == found.high == values[0]


def test_points_are_told_apart_by_what_differs(bundle: Bundle):
    assert [p.label for p in training([bundle]).points] == [f"data.instances={m}" for m in (1, 2, 4, 8, 16, 32)]


def test_a_target_that_no_run_reached_is_said(bundle: Bundle):
    table = training([bundle]).tabulate_accuracy()[0]
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    assert [row["reached"] for row in rows] == ["not reached", *["3/3"] * 5]
    assert rows[0]["epochs_to_target"] is None
    assert rows[0]["to_target_s"] is None
    # 20 steps an epoch at the step time of the timed windows, which the noise scale does not slow.
    records = training([bundle]).points[5].records
    steps_s = [r.trial.point.global_batch / r.summary.throughput for r in records if r.summary]  # type: ignore[operator]
    firsts = [next(e for e in EVALUATIONS.of(r) if e.accuracy >= 0.9) for r in records]
    assert rows[5]["epochs_to_target"].value == sum(e.epoch for e in firsts) / 3  # type: ignore[union-attr]
    expected = sum(e.epoch * 20 * step_s for e, step_s in zip(firsts, steps_s, strict=True)) / 3
    assert rows[5]["to_target_s"].value == pytest.approx(expected)  # type: ignore[union-attr]
    final = [run[-1].accuracy for run in training([bundle]).points[0].runs]
    assert (rows[0]["final_accuracy"].low, rows[0]["final_accuracy"].high) == pytest.approx(  # type: ignore[union-attr]
        by_hand(final, 4.302653), rel=1e-6
    )


def test_noise_stands_only_where_every_repetition_has_it(bundle: Bundle):
    (table,) = training([bundle]).tabulate_noise()
    names = [column.name for column in table.columns]
    first, second = (dict(zip(names, row, strict=True)) for row in table.rows[:2])
    assert (first["simple"], first["known"]) == (None, "2/3")
    assert second["simple"].value == pytest.approx(100 * 1.1)  # type: ignore[union-attr]


def test_times_are_without_the_cost_of_the_noise_scale(bundle: Bundle):
    found = training([bundle])
    assert any("timed windows, which ran without it" in note for note in found.tabulate_accuracy()[0].notes)
    without = [
        replace(p, measured=replace(p.measured, trials=tuple(map(noiseless, p.measured.trials)))) for p in found.points
    ]
    assert not any("noise scale" in note for note in accuracy_table(without).notes)
    # Without it an epoch's time is the one that was measured in training: M = 32 takes 9 s.
    assert without[5].epoch_s.value == pytest.approx(9.0)


def noiseless(trial: Trial) -> Trial:
    assert trial.record is not None
    return replace(trial, record=with_facts(trial.record, noiseScale=[]))


def test_data_of_all_points_is_one_row(bundle: Bundle):
    data, classes = training([bundle]).tabulate_data()
    assert data.rows == (("digits", 300, 60, None, 3, 90, "cat", 110, "<b>dog</b>"),)
    assert classes.rows == (("cat", 90), ("<b>dog</b>", 110), ("frog", 100))


def test_accuracy_on_a_test_set_is_beside_that_on_validation(bundle: Bundle):
    plain = training([bundle]).tabulate_accuracy()[0]
    assert "Test accuracy" not in [column.title for column in plain.compact().columns]
    tested = replace(bundle, trials=tuple(map(with_test_set, bundle.trials)))
    table = accuracy_table(training([tested]).points)
    place = [column.name for column in table.columns].index("test_accuracy")
    assert {cell.value for row in table.rows if isinstance(cell := row[place], Estimate)} == {0.75}
    assert any(note.startswith("Test accuracy is that of the last epoch's model") for note in table.notes)
    # The data are one set, however well each run did on it.
    (row,) = training([tested]).tabulate_data()[0].rows
    assert row[:4] == ("digits", 300, 60, 40)


def with_test_set(trial: Trial) -> Trial:
    assert trial.record is not None
    if (data := DATASET.of(trial.record)) is None:
        return trial
    tested = data.model_copy(update={"test": 40, "test_accuracy": 0.75})
    return replace(trial, record=with_facts(trial.record, dataset=tested))


def test_quantization_by_bits_scheme_and_stage(bundle: Bundle):
    accuracy, error = training([bundle]).tabulate_quantization()
    names = [column.name for column in accuracy.columns]
    rows = [dict(zip(names, row, strict=True)) for row in accuracy.rows if row[1] == "weak data.instances=1"]
    assert [(row["bits"], row["scheme"]) for row in rows] == [
        (32, "float"),
        *[(bits, scheme) for bits in (8, 4, 2) for scheme in ("tensor", "channel")],
    ]
    assert [row["accuracy_torch"] is None for row in rows] == [True, False, False, True, True, True, True]
    assert rows[1]["bytes"] == 8040
    assert rows[1]["of_float"] == 8040 / 32_000
    wanted = 0.97 - 2.0**-7 * 3 / 2 - 0.002
    assert rows[1]["accuracy_biases"].value == pytest.approx(wanted)  # type: ignore[union-attr]
    assert len(error.rows) == 2 * 6


def test_mean_lines_end_where_the_first_run_ends(bundle: Bundle):
    point = training([bundle]).points[0]
    cut = with_facts(point.measured.good[0], evaluations=point.runs[0][:5])
    shorter = type(point)(point.bundle, point.series, point.label, point.measured)
    shorter.__dict__["runs"] = (EVALUATIONS.of(cut), *point.runs[1:])
    epochs, errors = mean_error(shorter)
    assert epochs == [1, 2, 3, 4, 5]
    assert errors[0] == pytest.approx(sum(1 - run[0].accuracy for run in point.runs) / 3)


@pytest.fixture(scope="module")
def written(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written")
    report([bundle], out, ["html", "md", "json", "svg"])
    return out


def test_the_report_shows_all_of_it(written: Path):
    assert {path.stem for path in (written / "plots").glob("*.svg")} >= NEW
    tables = json.loads((written / "report.json").read_text())["tables"]
    assert set(tables) >= {"accuracy", "data", "classes", "noise-scale", "quantization", "quantization-error"}
    page = (written / "report.html").read_text()
    assert "<b>dog</b>" not in page
    # Pictures are in the page itself; nothing is fetched, and links lead to files beside it.
    links = re.findall(r'(?:href|src)="([^"#][^"]{0,60})', page)
    pictures = [link for link in links if link.startswith("data:image/png;base64,")]
    assert pictures
    assert all((written / link).is_file() for link in links if link not in pictures)
    assert "not reached" in (written / "report.md").read_text()


def test_the_same_bytes_in_another_process(folder: Path, written: Path, tmp_path: Path):
    here, there = written, tmp_path / "there"
    program = (
        "import sys; from scalecurve.bundle.open import open_bundle; from scalecurve.reporting import report; "
        "report([open_bundle(sys.argv[1])], sys.argv[2], ['html', 'md', 'json', 'svg'])"
    )
    subprocess.run([sys.executable, "-c", program, folder, there], check=True, timeout=300)
    for path in sorted(path for path in here.rglob("*") if path.is_file()):
        assert path.read_bytes() == (there / path.relative_to(here)).read_bytes(), path.name


def test_without_evaluations_there_is_no_section(tmp_path: Path):
    plain = open_bundle(write_bundle(tmp_path / "plain", TRAINED, tables=False))
    report([plain], tmp_path / "out", ["md", "svg"])
    text = (tmp_path / "out" / "report.md").read_text()
    for title in ("Training to accuracy", "## Data", "noise scale", "## Quantization"):
        assert title not in text
    assert not {path.stem for path in (tmp_path / "out" / "plots").glob("*.svg")} & NEW
    assert training([plain]).tables() == ()


def test_a_picture_that_is_none_is_black(tmp_path: Path):
    def change(record: TrialRecord) -> TrialRecord:
        bad = Picture(label=9, shape=[3, 12, 12], original="!!", trained="AAAA")
        return with_facts(looked_at(record), dataset=facts().model_copy(update={"pictures": [bad]}))

    odd = open_bundle(write_bundle(tmp_path / "odd", TRAINED, tables=False, evaluations=learnt, change=change))
    report([odd], tmp_path / "out", ["svg"])
    assert (tmp_path / "out" / "plots" / "pictures.svg").exists()


def test_the_verb_prints_the_tables(folder: Path, tmp_path: Path):
    shown = CliRunner().invoke(cli, ["training", str(folder), "-o", "md"])
    assert shown.exit_code == 0, shown.output
    for title in ("Training to accuracy", "Gradient noise scale", "Accuracy and size of quantized models"):
        assert f"### {title}" in shown.output
    plain = write_bundle(tmp_path / "plain", TRAINED, tables=False)
    empty = CliRunner().invoke(cli, ["training", str(plain)])
    assert "(nothing)" not in empty.output
    assert "measure.accuracy" in empty.output
    assert empty.exit_code == 2
    for_programs = CliRunner().invoke(cli, ["training", str(plain), "-o", "json"])
    assert for_programs.exit_code == 2
    assert "measure.accuracy" in for_programs.stderr


def broken(tmp_path: Path, **changes: object) -> str:
    """What is said of a bundle whose records were sealed with these facts."""

    def change(record: TrialRecord) -> TrialRecord:
        return with_facts(looked_at(record), **changes)

    opened = open_bundle(write_bundle(tmp_path / "odd", TRAINED, tables=False, evaluations=learnt, change=change))
    assert not any(trial.good for trial in opened.trials)
    return opened.problems[0].what


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset": facts().model_copy(update={"class_counts": [-1]})}, "dataset.classCounts[0] is -1"),
        ({"noiseScale": [NoiseScaleRow.model_validate(noisy_row(simple=-5.0))]}, "noiseScale[0].simple is -5"),
        ({"quantization": quantized_with(accuracy=1.5)}, "quantization.rows[0].accuracy is 1.5"),
        ({"quantization": quantized_with(bits=0)}, "quantization.rows[0].bits is 0"),
    ],
)
def test_what_cannot_be_is_no_number(tmp_path: Path, changes: dict[str, object], said: str):
    assert said in broken(tmp_path, **changes)
