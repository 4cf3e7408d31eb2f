"""Logs of LLaMA-Factory; shapes are the tool's, numbers ours.

https://github.com/hiyouga/LLaMA-Factory/blob/main/src/llamafactory/train/callbacks.py (LogCallback)
"""

import json
from pathlib import Path

import pytest

from scalecurve_importing.reading import SourceError, Unit
from tests.importing.test_trainer_files import read


def factory(at: int, *, rate: float | None = None, tokens: int | None = None, time: str = "") -> str:
    tree: dict[str, object] = {"current_steps": at * 5, "total_steps": 500, "loss": 1.0, "lr": 1e-4, "epoch": at / 10,
                               "percentage": at, "elapsed_time": time, "remaining_time": "0:10:00"}  # fmt: skip
    tree |= {"throughput": rate} if rate is not None else {}
    return json.dumps(tree | ({"total_tokens": tokens} if tokens is not None else {}))


def clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@pytest.mark.parametrize("counts", [True, False])
def test_llamafactorys_throughput_is_a_mean_since_the_start(tmp_path: Path, counts: bool) -> None:
    """A first minute of compilation, then 1,000 tokens in each second: no line's own throughput says that."""
    lines = [
        factory(at, rate=at * 10_000 / (60 + 10 * at), tokens=at * 10_000 if counts else None, time=clock(60 + 10 * at))
        for at in range(1, 31)
    ]
    name, (reading,) = read(tmp_path / "trainer_log.jsonl", "\n".join(lines), workers="8")
    assert (name, reading.unit, reading.throughput) == ("llamafactory", Unit.tokens, pytest.approx(1000))
    assert "tokens and times are differences between lines: its throughput is a mean since the start" in reading.notes


def test_llamafactory_resumed_and_without_tokens(tmp_path: Path) -> None:
    first = [factory(at, tokens=at * 100, time=clock(10 * at)) for at in range(1, 21)]
    again = [factory(at, tokens=at * 100, time=clock(5 * (at - 14))) for at in range(15, 40)]
    _, readings = read(tmp_path / "log.jsonl", "\n".join([*first, *again, '{"cut']) + "\n", workers="2")
    assert [reading.throughput for reading in readings] == [pytest.approx(10), pytest.approx(20)]
    plain = "\n".join(factory(at, time=clock(10 * at)) for at in range(1, 21))
    with pytest.raises(SourceError, match="states no tokens, so its times need the batch: --set global_batch=N"):
        read(tmp_path / "log.jsonl", plain, workers="2")
    _, (reading,) = read(tmp_path / "log.jsonl", plain, workers="2", global_batch="64")
    assert reading.throughput == pytest.approx(32)


def test_llamafactory_that_contradicts_itself_is_said(tmp_path: Path) -> None:
    lines = [factory(at, rate=900.0, tokens=at * 25_000, time=clock(10 * at)) for at in range(1, 21)]
    _, (reading,) = read(tmp_path / "log.jsonl", "\n".join(lines), workers="8")
    assert reading.throughput == pytest.approx(2500)
    assert "its last throughput is 900 tokens/s, and its tokens by its time are 2,500" in reading.notes
