"""Files that trainers leave: DLLogger, Transformers. Shapes are the tools', numbers ours.

https://github.com/NVIDIA/DeepLearningExamples (PyTorch/Classification/ConvNets, PyTorch/Translation/Transformer)
https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_utils.py (speed_metrics)
"""

import json
from pathlib import Path
from typing import Any

import pytest

from scalecurve_importing.columns import Statements
from scalecurve_importing.compose import compose
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.reading import Reading, SourceError, Unit


def read(path: Path, text: str, statements: Statements | None = None, **facts: str) -> tuple[str, list[Reading]]:
    path.write_text(text)
    name, importer = importer_of(path)
    return name, list(importer.read(path, statements or Statements(facts)))


def dlll(step: object, kind: str = "LOG", **more: Any) -> str:
    tree = {"timestamp": "17.0", "datetime": "d", "elapsedtime": "1.0", "type": kind, "step": step, **more}
    return f"DLLL {json.dumps(tree)}"


def ips(step: list[int], rate: float) -> str:
    return dlll(step, data={"train.loss": 6.0, "train.compute_ips": 2 * rate, "train.total_ips": rate})


def test_dllogger(tmp_path: Path) -> None:
    """Two epochs that count their iterations anew; lines of an epoch and of the run are no steps."""
    lines = [dlll("PARAMETER", data={"arch": "toy", "num_gpus": 8})]
    for epoch in (0, 1):
        lines += [ips([epoch, at], 100 if epoch == at == 0 else 400 if at % 2 else 200) for at in range(20)]
        lines += [dlll([epoch], data={"train.total_ips": 9.0, "val.total_ips": 4000.0})]
    lines += [dlll([], data={"train.total_ips": 9.0}), 'DLLL {"timestamp": "cut']
    name, (reading,) = read(tmp_path / "log.json", "\n".join(["[0] starting", *lines]))
    assert (name, reading.workers, reading.unit) == ("dllogger", 8, Unit.samples)
    assert reading.throughput == pytest.approx(35 / (17 / 200 + 18 / 400), rel=0.02)
    assert reading.notes[0] == "train.total_ips: samples/s over all workers"


@pytest.mark.parametrize(
    ("data", "more", "columns", "units", "rate", "unit"),
    [
        ({"train_items_per_sec": 50.0, "train_loss": 1.0}, [], {}, {}, 50, Unit.samples),
        ({"tokens/s": 900.0}, [], {}, {}, 900, Unit.tokens),
        ({"train_throughput": 7.0}, [dlll("m", "METADATA", metric="train_throughput", metadata={"unit": "images/s"})],
         {}, {}, 7, Unit.samples),
        ({"speed": 30.0}, [], {"throughput": "speed"}, {"throughput": "tokens/s/gpu"}, 120, Unit.tokens),
        ({"step_time_ms": 250.0}, [], {}, {}, 128, Unit.samples),
    ],
)  # fmt: skip
def test_metrics_of_dllogger(
    tmp_path: Path, data: dict[str, float], more: list[str], columns: dict[str, str], units: dict[str, str],
    rate: float, unit: Unit,
) -> None:  # fmt: skip
    text = "\n".join([*more, *(dlll(at, data=data) for at in range(20))])
    stated = Statements({"workers": "4", "global_batch": "32"}, columns, units)
    _, (reading,) = read(tmp_path / "log.json", text, stated)
    assert (reading.throughput, reading.unit) == (pytest.approx(rate), unit)


def test_dllogger_without_a_known_metric(tmp_path: Path) -> None:
    text = "\n".join(dlll([0, at], data={"loss": 1.0, "val.total_ips": 9.0}) for at in range(9))
    with pytest.raises(
        SourceError, match=r"no metric of its steps is a known throughput \(they have loss, val.total_ip"
    ):
        read(tmp_path / "log.json", text, workers="2")
    with pytest.raises(SourceError, match=r"no step has a train\.total_ips above 0"):
        read(tmp_path / "log.json", "\n".join(ips([0, at], -5.0) for at in range(9)), workers="2")
    head = dlll("PARAMETER", data={"world_size": 8})
    text = "\n".join([head, *(ips([0, at], 5.0) for at in range(9))])
    with pytest.raises(SourceError, match="has workers 8, and --set workers=2 contradicts it"):
        read(tmp_path / "log.json", text, workers="2")


def trainer(rate: float, runtime: float, steps: int = 100, *, history: bool = True) -> str:
    end = {"epoch": 1.0, "train_loss": 2.0, "train_runtime": runtime, "train_samples_per_second": rate,
           "train_steps_per_second": round(steps / runtime, 3)}  # fmt: skip
    if not history:
        return json.dumps(end, indent=2)
    losses = [{"epoch": at / 10, "loss": 3.0, "step": at * 10} for at in range(1, 11)]
    return json.dumps({"global_step": steps, "log_history": [*losses, {**end, "step": steps}]}, indent=2)


@pytest.mark.parametrize("history", [True, False])
def test_transformers(tmp_path: Path, history: bool) -> None:
    readings = []
    for workers, rate in ((1, 15.0), (2, 28.0)):
        text = trainer(rate, 64 * workers * 100 / rate, history=history)
        name, (reading,) = read(tmp_path / "file.json", text, workers=str(workers))
        assert (name, reading.throughput, reading.global_batch) == ("transformers", pytest.approx(rate), 64 * workers)
        assert reading.notes[0].startswith("mean over the complete run, first steps and evaluations included")
        readings.append(reading)
    assert {record.trial.point.mode.value for record in compose("x", readings).records} == {"weak"}


def test_transformers_without_a_whole_batch_or_an_end(tmp_path: Path) -> None:
    _, (reading,) = read(tmp_path / "all_results.json", trainer(10.0, 625.0, 101), workers="4")
    assert (reading.global_batch, reading.throughput) == (None, pytest.approx(10))
    with pytest.raises(SourceError, match=r"its log_history has no train_samples_per_second, as that of a checkpoint"):
        read(tmp_path / "trainer_state.json", json.dumps({"log_history": [{"loss": 1.0, "step": 5}]}), workers="1")
    with pytest.raises(SourceError, match="has global_batch 64, and --set global_batch=32 contradicts it"):
        read(tmp_path / "a.json", trainer(16.0, 400.0), workers="1", global_batch="32")
