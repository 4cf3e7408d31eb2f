"""Runs that other tools recorded: MLPerf's log, TensorBoard's events, CloudAI's training report; our own numbers."""

import json
import struct
from pathlib import Path

import pytest

from scalecurve_importing import tensorboard
from scalecurve_importing.columns import Statements
from scalecurve_importing.import_bundle import importer_of
from scalecurve_importing.reading import Reading, SourceError, Stretch, Unit
from scalecurve_importing.series import stretches
from tools import ROOT


def read(path: Path, **facts: str) -> tuple[str, list[Reading]]:
    name, importer = importer_of(path)
    return name, list(importer.read(path, Statements(facts)))


def event(at_s: float, key: str, value: object = None, **metadata: object) -> str:
    kind = "INTERVAL_START" if key.endswith("_start") else "INTERVAL_END" if key.endswith("_stop") else "POINT_IN_TIME"
    tree = {"namespace": "", "time_ms": int(at_s * 1e3), "event_type": kind, "key": key, "value": value}
    return f"0: :::MLLOG {json.dumps({**tree, 'metadata': {'file': 'train.py', 'lineno': 1, **metadata}})}"


def mlperf(*body: str, status: str = "success", end_s: float = 400.0) -> str:
    head = [
        event(1000, "submission_benchmark", "resnet"),
        event(1000, "global_batch_size", 400),
        event(1000, "train_samples", 40_000),
        event(1001, "run_start"),
    ]
    return "\n".join(["unrelated line", *head, *body, event(1001 + end_s, "run_stop", None, status=status)]) + "\n"


def test_mllog_by_epochs(tmp_path: Path) -> None:
    epochs = [
        line
        for n in range(4)
        for line in (
            event(1001 + 100 * n, "epoch_start", None, epoch_num=n),
            event(1051 + 100 * n, "epoch_stop", None, epoch_num=n),
            event(1060 + 100 * n, "eval_accuracy", 0.5 + n / 10, epoch_num=n),
        )
    ]
    (tmp_path / "result_0.txt").write_text(mlperf(*epochs))
    name, (reading,) = read(tmp_path / "result_0.txt", workers="8", nodes="1")
    assert (name, reading.model, reading.global_batch) == ("mllog", "resnet", 400)
    assert reading.throughput == pytest.approx(800), "evaluation lies between epochs"
    assert sum(each.steps or 0 for each in reading.stretches) == 300, "the first epoch is warm-up"
    assert reading.final_accuracy == pytest.approx(0.8)
    assert reading.seconds_to_target == pytest.approx(400)
    assert "time to target from run_start to run_stop, evaluation included" in reading.notes


def test_mllog_by_blocks_and_by_statistics(tmp_path: Path) -> None:
    blocks = [
        line
        for n in range(3)
        for line in (
            event(1001 + 20 * n, "block_start", None, samples_count=4000 * n),
            event(1011 + 20 * n, "block_stop", None, samples_count=4000 * (n + 1)),
        )
    ]
    (tmp_path / "log").write_text(mlperf(*blocks, status="aborted"))
    _, (reading,) = read(tmp_path / "log", workers="8")
    assert reading.throughput == pytest.approx(400)
    assert reading.seconds_to_target is None, "the target was missed"
    tracked = [event(1001 + n, "tracked_stats", {"throughput": 1200.0}, step=n) for n in range(5)]
    (tmp_path / "log").write_text(mlperf(*tracked))
    assert read(tmp_path / "log", workers="8")[1][0].throughput == pytest.approx(1200)


def test_mllog_by_blocks_that_state_their_length(tmp_path: Path) -> None:
    blocks = [
        line
        for n in range(4)
        for line in (
            event(1001 + 20 * n, "block_start", None, samples_count=4000),
            event(1011 + 20 * n, "block_stop", None, samples_count=4000 * (n + 1)),
        )
    ]
    (tmp_path / "log").write_text(mlperf(*blocks))
    assert read(tmp_path / "log", workers="8")[1][0].throughput == pytest.approx(400)


def test_mllog_by_blocks_whose_stop_repeats_their_start(tmp_path: Path) -> None:
    blocks = [
        line
        for n in range(4)
        for line in (
            event(1001 + 20 * n, "block_start", None, samples_count=4000 * n),
            event(1011 + 20 * n, "block_stop", None, samples_count=4000 * n),
            event(1011 + 20 * n, "eval_start", None, samples_count=4000 * (n + 1)),
        )
    ]
    (tmp_path / "log").write_text(mlperf(*blocks))
    assert read(tmp_path / "log", workers="8")[1][0].throughput == pytest.approx(400), "and no block is an epoch"


def test_mllog_without_a_throughput(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(mlperf())
    with pytest.raises(SourceError, match=r"log: has no throughput: no intervals \(block or epoch\) with samples"):
        read(tmp_path / "log", workers="8")
    with pytest.raises(SourceError, match="states no worker count"):
        read(tmp_path / "log")


def record(data: bytes) -> bytes:
    """TFRecord's frame around a message."""
    length = struct.pack("<Q", len(data))
    crc = [struct.pack("<I", tensorboard._masked_crc(part)) for part in (length, data)]
    return length + crc[0] + data + crc[1]


def field(number: int, value: bytes | int | float) -> bytes:
    """A protobuf field: a varint, a float, or bytes."""
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def events(tag: str, values: list[float], *, tensor: bool = False) -> bytes:
    """An event file: its version, then a scalar a step, as TensorFlow 1 or 2 writes them."""
    head = b"\x09" + struct.pack("<d", 1.7e9)
    data = record(head + field(3, b"brain.Event:2"))
    for step, value in enumerate(values):
        body = field(8, field(1, 1) + field(5, struct.pack("<f", value))) if tensor else field(2, value)
        summary = field(1, field(1, tag.encode()) + body)
        data += record(head + field(2, step) + field(5, summary))
    return data


def test_the_checksum_is_that_of_the_format() -> None:
    """The check value of CRC-32C (RFC 3720), masked as TFRecord does."""
    crc = 0xE3069283
    assert tensorboard._masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("tensor", [False, True])
def test_tensorboard(tmp_path: Path, tensor: bool) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    data = events("train_step_timing in s", [3.0, 1.0, 1.0, *[0.5] * 20], tensor=tensor)
    (folder / "events.out.tfevents.1.host").write_bytes(data + data[:5])
    name, (reading,) = read(folder, workers="4", batch_per_worker="8")
    assert (name, reading.throughput) == ("tensorboard", pytest.approx(64))
    assert reading.notes == ("first 5 of 23 steps skipped as warm-up",)
    with pytest.raises(SourceError, match="a step time needs the batch; state it with --set batch_per_worker=N"):
        read(folder, workers="4")


def test_tensorboards_own_library_writes_what_is_read(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer", reason="tensorboard is not installed")
    from tensorboard.compat.proto import event_pb2, summary_pb2

    file = writer.EventFileWriter(str(tmp_path / "run"))
    for step in range(3):
        value = summary_pb2.Summary.Value(tag="throughput(tps)", simple_value=100.0)
        file.add_event(event_pb2.Event(wall_time=step, step=step, summary=summary_pb2.Summary(value=[value])))
    file.close()
    _, (reading,) = read(tmp_path / "run", workers="4")
    assert (reading.throughput, reading.unit) == (pytest.approx(400), Unit.tokens)


def test_a_tag_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(events("speed", [200.0] * 4))
    with pytest.raises(SourceError, match=r"none of its tags is known \(speed\)"):
        read(path, workers="2")
    stated = Statements({"workers": "2"}, {"throughput": "speed"}, {"throughput": "tokens/s"})
    (reading,) = importer_of(path)[1].read(path, stated)
    assert (reading.throughput, reading.unit) == (pytest.approx(200), Unit.tokens)


@pytest.mark.parametrize("at", [3, 40])
def test_a_damaged_event_file_is_refused(tmp_path: Path, at: int) -> None:
    data = bytearray(events("speed", [200.0] * 4))
    data[at] ^= 0xFF
    (tmp_path / "events.out.tfevents.1").write_bytes(data)
    with pytest.raises(SourceError, match="wrong checksum"):
        read(tmp_path / "events.out.tfevents.1", workers="2")


def test_cloudais_training_report(tmp_path: Path) -> None:
    for run, nodes in (("a", 1), ("b", 2)):
        config = {"global_batch_size": 64, "world_size": 8 * nodes, "num_nodes": nodes, "model_name": "llama3_8b",
                  "exclude_start_steps": 3}  # fmt: skip
        steps = [{"iteration": n, "step_time_sec": 9.0 if n < 3 else 2.0 / nodes, "loss": 5.0} for n in range(23)]
        (tmp_path / "scenario" / run).mkdir(parents=True)
        report = {"config": config, "steps": steps, "aggregation": None}
        (tmp_path / "scenario" / run / "training_report.json").write_text(json.dumps(report))
    name, readings = read(tmp_path / "scenario")
    assert (name, [(r.workers, r.nodes, r.throughput) for r in readings]) == (
        "cloudai",
        [(8, 1, pytest.approx(32)), (16, 2, pytest.approx(64))],
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"world_size": 8, "global_batch_size": 64, "exclude_start_steps": float("nan")},
            "got 'nan', expected a whole",
        ),
        ({"world_size": 8, "global_batch_size": 64, "exclude_start_steps": -3}, "got '-3', expected a whole number"),
        (["world_size"], "not CloudAI's training report: "),
    ],
)
def test_cloudais_report_with_a_damaged_configuration(tmp_path: Path, config: object, message: str) -> None:
    report = {"config": config, "steps": [{"iteration": 1, "step_time_sec": 2.0}]}
    (tmp_path / "training_report.json").write_text(json.dumps(report))
    with pytest.raises(SourceError, match=message):
        read(tmp_path / "training_report.json")


def test_cloudais_collectives_with_a_row_that_is_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "cloudai_nccl_test_csv_report.csv"
    whole = (ROOT / "tests/fixtures/imports" / file.name).read_text()
    file.write_text(whole.replace(",2,2\n", "\n"))
    with pytest.raises(SourceError, match="states no worker count"):
        read(file)


def test_cloudais_iterations_of_megatron(tmp_path: Path) -> None:
    path = tmp_path / "megatron_run_report.csv"
    path.write_text(
        "metric_type,avg,median,min,max,std\niteration_time_ms,500.0,500,490,510,3\ntflops_per_gpu,4,4,4,4,0\n"
    )
    _, (reading,) = read(path, workers="8", global_batch="128")
    assert reading.throughput == pytest.approx(256)
    with pytest.raises(SourceError, match="states no batch; add --set global_batch=N or --set batch_per_worker=N"):
        read(path, workers="8")


@pytest.mark.parametrize(("entries", "kept"), [(1, 1), (2, 2), (3, 2), (12, 8), (100, 95)])
def test_few_entries_are_not_all_warm_up(entries: int, kept: int) -> None:
    parts, _ = stretches([Stretch(1, 1.0, 1)] * entries)
    assert sum(each.steps or 0 for each in parts) == kept
    assert len(parts) <= 10


LOGS = {
    "torchtitan": (
        "[rank0]:[titan] 2026-01-01 10:00:{0:02} - root - INFO - step: {0:2}  loss: 7.1234  grad_norm:  1.5  memory: "
        "20.00GiB(50.00%)  tps: 5,000  tflops: 123.45  mfu: 12.34%",
        {},
        40_000,
        Unit.tokens,
    ),
    "megatron": (
        " [2026-01-01 10:00:{0:02}] iteration {0:8}/     100 | consumed samples: 640 | elapsed time per iteration "
        "(ms): 500.0 | throughput per GPU (TFLOP/s/GPU): 494.6 | learning rate: 1E-04 | global batch size:    64 | "
        "lm loss: 1.0E+01 | number of skipped iterations:   0 |",
        {},
        128,
        Unit.samples,
    ),
    "nemo": (
        "Training epoch 0, iteration {0}/99 | lr: 1e-05 | global_batch_size: 64 | global_step: {0} | "
        "reduced_train_loss: 10.5 | train_step_timing in s: 0.5 | consumed_samples: 640",
        {},
        128,
        Unit.samples,
    ),
    "maxtext": (
        "completed step: {0}, seconds: 2.000, TFLOP/s/device: 100.0, Tokens/s/device: 1000.0, total_weights: 16, "
        "loss: 9.0",
        {},
        8000,
        Unit.tokens,
    ),
}


@pytest.mark.parametrize("form", LOGS)
def test_logs_of_trainers(tmp_path: Path, form: str) -> None:
    line, facts, rate, unit = LOGS[form]
    (tmp_path / "train.log").write_text("\n".join(["hello", *(line.format(step) for step in range(1, 31)), "bye"]))
    name, (reading,) = read(tmp_path / "train.log", workers="8", **facts)
    assert (name, reading.throughput, reading.unit) == (form, pytest.approx(rate), unit)
    assert reading.notes == ("first 5 of 30 steps skipped as warm-up",)


def test_a_log_without_a_batch(tmp_path: Path) -> None:
    line = LOGS["nemo"][0].replace("| global_batch_size: 64 ", "")
    (tmp_path / "log").write_text("\n".join(line.format(step) for step in range(9)))
    with pytest.raises(SourceError, match="its step times need the batch; state it with --set global_batch=N"):
        read(tmp_path / "log", workers="8")


def test_mllog_whose_last_epoch_was_cut_off(tmp_path: Path) -> None:
    """An evaluation beside the next epoch reaches the target, and that epoch stops after the run.

    https://github.com/mlcommons/training_results_v5.0: Dell/results/1xXE9680Lx8B200-SXM-180GB/retinanet
    """
    body = []
    for n in range(4):
        body += [event(1001 + 100 * n, "epoch_start"), event(1101 + 100 * n, "epoch_stop")]
    log = mlperf(*body, event(1401, "epoch_start"), event(1405, "eval_stop"), end_s=405)
    (tmp_path / "log").write_text(log + event(1406.5, "epoch_stop") + "\n")
    assert read(tmp_path / "log", workers="8")[1][0].throughput == pytest.approx(400)


def test_mllog_of_blocks_with_an_evaluation_beside_them(tmp_path: Path) -> None:
    """Other nodes evaluate within the next block, which does not end with that.

    https://github.com/mlcommons/training_results_v4.0: smc-ac-power/results/9xSMC-H100-SXM-80GB/unet3d
    """
    body = [event(1000, "submission_benchmark", "unet3d"), event(1000, "train_samples", 168)]
    for n in range(6):
        count = {"first_epoch_num": 168 if n == 0 else 3360 * n, "epoch_count": 3360}
        begin = 1001 + 10 * n
        body += [event(begin, "block_start", None, **count), event(begin + 0.1, "eval_start"),
                 event(begin + 3, "eval_stop"), event(begin + 10, "block_stop", None, **count)]  # fmt: skip
    (tmp_path / "log").write_text(mlperf(*body, end_s=70))
    assert read(tmp_path / "log", workers="8")[1][0].throughput == pytest.approx(336)


def test_mllog_with_a_broken_line(tmp_path: Path) -> None:
    epochs = [event(1001 + 50 * n, f"epoch_{when}") for n in range(8) for when in ("start", "stop")]
    broken = '3: :::MLLOG {"namespace": "", "time_ms": 10:::MLLOG {"namespace": "", "key": "epoch_stop"}'
    times = [
        event(1001 + 100 * n + 50 * at, f"epoch_{when}") for n in range(20) for at, when in enumerate(("start", "stop"))
    ]
    (tmp_path / "log").write_text(mlperf(*times, broken, end_s=2000))
    _, (reading,) = read(tmp_path / "log", workers="8")
    assert reading.throughput == pytest.approx(800)
    assert reading.notes[-1].startswith("1 line skipped (line 46: not an event of MLLog: JSONDecodeError: ")
    (tmp_path / "log").write_text(mlperf(*epochs, *[broken] * 4))
    with pytest.raises(SourceError, match=r"line 22: not an event of MLLog: JSONDecodeError: .*; 4 of 25 are none"):
        read(tmp_path / "log", workers="8")
