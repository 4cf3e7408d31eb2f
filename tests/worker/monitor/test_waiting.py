"""The kernel's count of the time that a thread waited for a processor."""

import time
from pathlib import Path

import pytest

from scalecurve_worker.monitor import waiting
from scalecurve_worker.monitor.waiting import Waiting


@pytest.mark.skipif(not Path(waiting._SCHEDSTAT).exists(), reason="this kernel does not count it")
def test_sleep_is_no_waiting_for_a_processor() -> None:
    stretch = Waiting()
    began = time.monotonic_ns()
    stretch.begin()
    time.sleep(0.2)
    stretch.end()
    took = time.monotonic_ns() - began
    assert not stretch.open
    assert stretch.ns is not None
    assert 0 <= stretch.ns <= took - 150_000_000, "at most all but the sleep"


def test_a_kernel_that_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for content in (None, "", "one"):
        if content is not None:
            (tmp_path / "schedstat").write_text(content)
        monkeypatch.setattr(waiting, "_SCHEDSTAT", str(tmp_path / "schedstat"))
        stretch = Waiting()
        stretch.begin()
        stretch.end()
        assert stretch.ns is None
