"""Sections of a step: who is inside of whom, and what is measured where nothing watches."""

from __future__ import annotations

import threading
import time

import pytest

from scalecurve_api.record.rank import Window, WindowKind
from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.sdk.sections import Sections


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each look at the time is 10 ns after the one before."""
    now = [0]

    def tick() -> int:
        now[0] += 10
        return now[0]

    monkeypatch.setattr(time, "monotonic_ns", tick)
    return now


def test_a_moment_belongs_to_the_innermost_section(clock: list[int]) -> None:
    sections = Sections(LoaderTime())
    assert sections.begin()
    sections.seen |= {"backward", "communication"}
    with sections.section("backward"):  # 10
        with sections.section("communication"):  # 20 to 30
            pass
        with sections.section("communication"):  # 40 to 50
            pass
    # ends at 60
    sections.end(steps=2, wall_ns=200)
    assert sections.times is not None
    assert (sections.times.backward_ns, sections.times.communication_ns) == (30, 20)
    assert sections.times.forward_ns is None
    assert sections.times.input_ns == 0
    assert sections.times.host_s == pytest.approx((200 - 50) / 2 / 1e9)


def test_waiting_for_a_loader_is_input_only_while_steps_are_watched(clock: list[int]) -> None:
    loading = LoaderTime()
    sections = Sections(loading)
    with loading:
        pass
    sections.begin()
    with loading, loading:
        pass
    sections.end(1, 100)
    sections.close()
    with loading:
        pass
    assert sections.times is not None
    assert sections.times.input_ns == 30
    assert loading.watcher is None


def test_a_second_begin_counts_anew_and_closing_undoes_last_first() -> None:
    sections, undone = Sections(LoaderTime()), []
    assert sections.begin()
    sections.watch(lambda: undone.append("first"), lambda: undone.append("second"))
    with sections.section("input"):
        pass
    assert not sections.begin()
    sections.end(1, 10)
    sections.close()
    assert undone == ["second", "first"]
    assert sections.times is not None
    assert sections.times.input_ns == 0
    with sections.section("input"):
        pass
    sections.end(1, 10)
    assert sections.times.input_ns == 0


def test_another_thread_has_no_sections() -> None:
    sections = Sections(LoaderTime())
    sections.begin()
    other = threading.Thread(target=lambda: (sections.enter("input"), sections.leave()))
    other.start()
    other.join()
    sections.end(1, 10)
    assert sections.times is not None
    assert sections.times.input_ns == 0


def window(kind: WindowKind, wall_ns: int, steps: int) -> Window:
    return Window(index=0, kind=kind, open_ns=0, wall_ns=wall_ns, first_step=0, steps=steps, samples=steps)


def test_what_a_step_takes_alone_is_of_windows_without_communication_else_of_a_trace() -> None:
    sections = Sections(LoaderTime())
    assert sections.found([], None) is None
    sections.begin()
    sections.end(1, 10)
    train, alone = window(WindowKind.train, 1000, 10), window(WindowKind.no_communication, 600, 10)
    both = sections.found([train, alone], 0.9)
    assert both is not None
    assert (both.own_ns, both.own_method) == (60, "windows without communication")
    traced = sections.found([train], 0.25)
    assert traced is not None
    assert (traced.own_ns, traced.own_method) == (75, "trace of a few steps")
    neither = sections.found([train], None)
    assert neither is not None
    assert neither.own_ns is None
