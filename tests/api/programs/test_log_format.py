"""Lines as the programs print them; where they come from stands above each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scalecurve_api.programs.log_format import KnownLog, LineReader, LogFormat, ReportedLine

MLLOG = {"namespace": "", "time_ms": 1_700_000_000_123, "event_type": "POINT_IN_TIME"}


def mllog(**event: Any) -> str:
    return f":::MLLOG {json.dumps({**MLLOG, **event})}"


LINES = [
    # torchtitan, a debug model on one rank; in colors, as it prints by default
    (
        "torchtitan",
        "[rank0]:[titan] 2025-10-30 14:32:58,990 - root - INFO - step:  2  loss:  6.1098  grad_norm:  4.6416  "
        "memory:  2.49GiB(3.14%)  tps: 177,138  tflops: 96.17  mfu: 9.72%",
        ReportedLine(step=2, worker_rate=177138.0, loss=6.1098),
    ),
    (
        "torchtitan",
        "\x1b[31mstep: 10  \x1b[32mloss:  nan  \x1b[33mmemory:  9.63GiB(10.18%)  \x1b[34mwps: 3,271  "
        "\x1b[35mmfu: 9%\x1b[39m",
        ReportedLine(step=10, worker_rate=3271.0, loss=float("nan")),
    ),
    # NVIDIA/Megatron-LM issue 756, and epfLLM/Megatron-LLM issue 11 (no date, no throughput)
    (
        "megatron",
        " [2024-04-06 02:59:36] iteration       43/     100 | consumed samples:         5504 | elapsed time per "
        "iteration "
        "(ms): 5444.9 | throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.600000E-06 | global batch "
        "size:   128 "
        "| lm loss: 1.825991E+00 | load_balancing_loss: 1.019746E+00 | loss scale: 1.0 | grad norm: 1.426 | num zeros: "
        "0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        ReportedLine(step=43, seconds=5.4449, batch=128, loss=1.825991),
    ),
    (
        "megatron",
        " iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration (ms): 86545.2 | "
        "learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad "
        "norm: 0.231 |",
        ReportedLine(step=122, seconds=86.5452, batch=1024, loss=2.50422),
    ),
    # NVIDIA-BioNeMo/bionemo-recipes pull request 740 (NeMo 2), NeMo-Framework-Launcher issue 55 (NeMo 1, a bar)
    (
        "nemo",
        "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | "
        "global_step: 120 "
        "| reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106",
        ReportedLine(step=120, seconds=0.03146, batch=1, loss=1.233),
    ),
    (
        "nemo",
        "Epoch 0:   1%|          | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, "
        "reduced_train_loss=3.090, "
        "global_step=794.0, consumed_samples=1.63e+6]",
        ReportedLine(step=794, loss=3.09),
    ),
    # NVIDIA-NeMo/Speech pull request 10128: no times
    (
        "nemo",
        "Training epoch 0, iteration 3/9 | lr: 0.0006 | consumed_samples: 128 | global_batch_size: 32 | global_step: 3 "
        "| reduced_train_loss: 8.595",
        ReportedLine(step=3, batch=32, loss=8.595),
    ),
    # AI-Hypercomputer/maxtext pull requests 761 and 4847
    (
        "maxtext",
        "completed step: 9, seconds: 1.341, TFLOP/s/device: 257.929, Tokens/s/device: 36653.244, loss: 0.000",
        ReportedLine(step=9, seconds=1.341, worker_rate=36653.244, loss=0.0),
    ),
    (
        "maxtext",
        "I0811 21:54:55.531340 138304841739136 metric_logger.py:226] completed step: 2, seconds: 10.228, "
        "TFLOP/s/device: "
        "350.869, Tokens/s/device: 19222.175, total_weights: 1572864, loss: 12.980, lm_loss: 12.980, perplexity: "
        "433463.7",
        ReportedLine(step=2, seconds=10.228, worker_rate=19222.175, loss=12.98),
    ),
    # Hugging Face's Trainer: a bar, and what it logs between
    (
        "huggingface",
        " 98%|█████████▊| 2086/2120 [26:01<00:22,  1.49it/s]",
        ReportedLine(step=2086),
    ),
    (
        "huggingface",
        "{'loss': 2.3093, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1}",
        ReportedLine(loss=2.3093),
    ),
    ("huggingface", "{'loss': '0.6931', 'grad_norm': '1.2', 'epoch': '0.1'}", ReportedLine(loss=0.6931)),
    # Lightning-AI/pytorch-lightning issues 4225 and 14094
    (
        "lightning",
        "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=10.072, v_num=193315]",
        ReportedLine(step=4, loss=10.072),
    ),
    (
        "lightning",
        "Epoch 2:  92%|███████   | 932/1016 [00:33<00:03, 27.70it/s, v_num=77, val_loss=1.5, train_loss_step=0.223]",
        ReportedLine(step=2964, loss=0.223),
    ),
    # Lightning 2.6.6 with rich, as printed to a pipe with TTY_COMPATIBLE=1
    (
        "lightning",
        "\x1b[2KEpoch 1/49  \x1b[35m━━━\x1b[0m\x1b[90m╺\x1b[0m\x1b[90m━━━━━\x1b[0m 20/60 "
        "\x1b[2m0:00:03 • 0:00:08\x1b[0m \x1b[2;4m5.55it/s\x1b[0m \x1b[3mtrain_loss: 0.021\x1b[0m",
        ReportedLine(step=80, loss=0.021),
    ),
    # MLPerf: mlcommons/logging; NVIDIA's tracked_stats
    (
        "mllog",
        "0: " + mllog(key="train_loss", value=6.9, metadata={"samples_count": 1152, "lr": 1e-4}),
        ReportedLine(samples=1152, loss=6.9, at_ns=1_700_000_000_123_000_000),
    ),
    (
        "mllog",
        mllog(key="tracked_stats", value={"throughput": 31.5, "train_step_time": 2.03}, metadata={"step": 640}),
        ReportedLine(step=640, seconds=2.03, rate=31.5, at_ns=1_700_000_000_123_000_000),
    ),
    (
        "mllog",
        mllog(key="block_start", value=None, metadata={"samples_count": 0}),
        ReportedLine(samples=0, begins=True, at_ns=1_700_000_000_123_000_000),
    ),
]


@pytest.mark.parametrize(("log", "line", "expected"), LINES)
def test_real_lines(log: str, line: str, expected: ReportedLine) -> None:
    assert repr(LineReader(LogFormat(format=KnownLog(log))).read(line)) == repr(expected)  # nan is not equal to itself


OTHERS = [
    "",
    "step 3 of the installation",
    "[titan] Training starts at step 1",
    " validation loss at iteration 100 | lm loss value: 1.1E+00 | lm loss PPL: 3.0E+00 |",
    "Validation DataLoader 0:  46%|███       | 73/157 [00:02<00:02, 37.48it/s]",
    "Map: 100%|██████████| 1000/1000 [00:01<00:00, 912.3 examples/s]",
    "{'eval_loss': 2.1, 'eval_runtime': 1.2, 'epoch': 1.0}",
    ":::MLLOG {not json}",
    ":::MLLOG []",
    mllog(key="eval_accuracy", value=0.7, metadata={"samples_count": 10}),
    mllog(key="train_loss", value=0.7, metadata={}),
    "iteration 1/2 | elapsed time per iteration (ms): 0.0 |",
    "iteration 1/2 | elapsed time per iteration (ms): inf |",
]


@pytest.mark.parametrize("log", KnownLog)
@pytest.mark.parametrize("line", OTHERS)
def test_other_lines_report_nothing(log: KnownLog, line: str) -> None:
    assert LineReader(LogFormat(format=log)).read(line) is None


@pytest.mark.parametrize("log", KnownLog)
@given(
    line=st.one_of(
        st.text(),
        st.sampled_from([line for _, line, _ in LINES]).flatmap(
            lambda line: st.integers(0, len(line)).map(lambda cut: line[:cut] + line[cut + 1 :])
        ),
    )
)
def test_any_line_is_read_without_an_error(log: KnownLog, line: str) -> None:
    reported = LineReader(LogFormat(format=log)).read(line)
    assert reported is None or reported.seconds is None or reported.seconds > 0


def test_the_bar_of_an_evaluation_inside_a_training_is_none_of_its_steps() -> None:
    reader = LineReader(LogFormat(format=KnownLog.huggingface))
    bars = ["5/5", "1/100", "7/100", "1/300", "299/300", "8/100"]
    read = [reader.read(f" 1%|#  | {bar} [00:01<00:22,  1.49it/s]") for bar in bars]
    assert [line.step if line else None for line in read] == [5, 1, 7, None, None, 8], "a bar before the training ends"


def test_a_pattern_of_ones_own() -> None:
    pattern = r"iter (?P<step>\d+): loss (?P<loss>\S+), time (?P<step_time_ms>[\d.]+)ms"
    reader = LineReader(LogFormat(pattern=pattern))
    assert reader.read("iter 1631: loss 4.0863, time 561.94ms, mfu 3%") == ReportedLine(
        step=1631, seconds=561.94 / 1e3, loss=4.0863
    )
    assert reader.read("iter 1631: loss none, time 561.94ms") is None
    assert LogFormat(pattern=r"(?P<throughput>[\d,.]+) images/s", unit="tokens").counts_tokens


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "either format or pattern"),
        ({"format": "nemo", "pattern": "(?P<step>1)"}, "either format or pattern"),
        ({"format": "megatron-lm"}, "Input should be 'torchtitan', 'megatron'"),
        ({"pattern": "(?P<step>[0-9+"}, "a regular expression: unterminated character set at position 9"),
        ({"pattern": "a{99999999999999999999}(?P<step>1)"}, "a regular expression: the repetition number is too large"),
        ({"pattern": "time ([0-9.]+)"}, "a regular expression with a named group step_time, step_time_ms, steps_per_"),
        ({"pattern": "(?P<loss>.*)"}, "a regular expression with a named group step_time"),
        ({"pattern": "(?P<time>.*)(?P<step>1)"}, "named groups step, step_time, step_time_ms"),
        (
            {"pattern": "(?P<step>1)", "unit": "tokens"},
            "a group throughput in pattern, or tokensPerSample, for unit tokens",
        ),
        ({"format": "nemo", "tokensPerSample": "seqLen"}, "String should match pattern"),
        ({"format": "nemo", "tokensPerSample": 0}, "greater than or equal to 1"),
    ],
)
def test_formats_that_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as error:
        LogFormat.model_validate(fields)
    assert says in str(error.value)
