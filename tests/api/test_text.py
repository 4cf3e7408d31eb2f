"""Words for people."""

import pytest

from scalecurve_api.text import count, did_you_mean, few, listed, plural


@pytest.mark.parametrize(
    ("word", "allowed", "suggestion"),
    [
        ("workes", ["workers", "modes"], "workers"),
        ("WORKERS", ["workers"], "workers"),
        ("perworker", ["global", "perWorker"], "perWorker"),
        ("K81", ["K80", "V100"], "K80"),
        ("banana", ["workers", "modes"], None),
        ("", ["workers"], None),
        ("workers", [], None),
    ],
)
def test_did_you_mean(word: str, allowed: list[str], suggestion: str | None) -> None:
    assert did_you_mean(word, allowed) == suggestion


def test_counts() -> None:
    assert [count(n, "worker") for n in (0, 1, 2)] == ["0 workers", "1 worker", "2 workers"]
    assert [count(n, "process", "processes") for n in (1, 3)] == ["1 process", "3 processes"]
    assert [plural(n, "was", "were") for n in (1, 2)] == ["was", "were"]
    assert [listed(numbers, "worker") for numbers in ([1], [2], [1, 4])] == ["1 worker", "2 workers", "1, 4 workers"]


def test_long_lists_are_cut() -> None:
    assert few(range(3)) == "0, 1, 2"
    assert few(range(10), 2) == "0, 1 and 8 more"
