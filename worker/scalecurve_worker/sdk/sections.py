"""Times the sections of a step by the host's clock, in steps of their own: no timed window has any of this."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

from scalecurve_api.record.rank import Window, WindowKind
from scalecurve_api.record.sections import WITHOUT_COMMUNICATION, SectionTimes
from scalecurve_worker.sdk.batches import LoaderTime

_APART = "communication outside of the backward pass"
Undo = Callable[[], None]


class Sections:
    """What the loop's thread spends in each section of the steps since ``begin``; the innermost section counts.

    Attributes:
        on: whether steps are being timed, for programs that tell of their own sections.
        seen: sections that something watches, so that none of their time is a measured zero.
    """

    def __init__(self, loading: LoaderTime) -> None:
        self.on = False
        self.seen: set[str] = set()
        self.times: SectionTimes | None = None
        self._loading = loading
        self._spent: Counter[str] = Counter()
        self._open: list[str] = []
        self._since = 0
        self._thread = 0
        self._undo: list[Undo] = []

    def watch(self, *undo: Undo) -> None:
        """Register how to remove something that watches sections; at the end it is removed, last first."""
        self._undo += undo

    def begin(self) -> bool:
        """Count from here on; whether nothing was watched yet. The program is between two steps."""
        first = not self.on
        if first:
            self.seen = {"input"}
            self._thread = threading.get_ident()
            self._loading.watcher = self
        self.on = True
        self._spent.clear()
        self._open.clear()
        return first

    def end(self, steps: int, wall_ns: int) -> None:
        """Note what the steps took, which have ended."""
        spent: dict[str, Any] = {f"{name}_ns": self._spent[name] for name in self.seen}
        if "communication" in self.seen:
            spent |= {"communication_ns": self._spent["communication"] + self._spent[_APART]}
            spent |= {"apart_ns": self._spent[_APART]}
        self.times = SectionTimes(steps=steps, wall_ns=wall_ns, **spent)

    def close(self) -> None:
        """Watch nothing any more."""
        self.on = False
        self._loading.watcher = None
        while self._undo:
            self._undo.pop()()

    def enter(self, name: str) -> None:
        """Begin a section, which may be inside another."""
        if threading.get_ident() != self._thread:
            return
        if name == "communication" and "backward" not in self._open:
            name = _APART
        now = time.monotonic_ns()
        if self._open:
            self._spent[self._open[-1]] += now - self._since
        self._open.append(name)
        self._since = now

    def leave(self) -> None:
        """End the innermost section."""
        if threading.get_ident() != self._thread or not self._open:
            return
        now = time.monotonic_ns()
        self._spent[self._open.pop()] += now - self._since
        self._since = now

    def section(self, name: str) -> "TimedSection":
        """Return a context manager around one section."""
        return TimedSection(self, name)

    def found(self, windows: list[Window], exposed_share: float | None) -> SectionTimes | None:
        """Return the measured times, with the time that a step of this rank takes alone.

        That comes from windows without communication, or from a trace, where either was made: ``exposed_share`` is the
        share of a step in which this rank only communicated.
        """
        if self.times is None:
            return None
        alone = [window for window in windows if window.kind is WindowKind.no_communication and window.steps]
        if alone:
            own = sum(window.wall_ns for window in alone) / sum(window.steps for window in alone)
            return self.times.model_copy(update={"own_ns": own, "own_method": WITHOUT_COMMUNICATION})
        trained = [window for window in windows if window.kind is WindowKind.train and window.steps]
        if exposed_share is not None and trained:
            step = sum(window.wall_ns for window in trained) / sum(window.steps for window in trained)
            own = step * (1 - exposed_share)
            return self.times.model_copy(update={"own_ns": own, "own_method": "trace of a few steps"})
        return self.times


class TimedSection:
    """One section, as a context manager; outside of sectioned steps it does nothing."""

    def __init__(self, sections: Sections, name: str) -> None:
        self._sections = sections
        self._name = name
        self._entered = False

    def __enter__(self) -> None:
        self._entered = self._sections.on
        if self._entered:
            self._sections.enter(self._name)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._entered:
            self._sections.leave()
