"""The progress of a run: trials done, current trial, pace and time left. A log gets a line for each ended trial."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count as counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalecurve_local import RunProgress


_ROOM_FOR_A_BAR = 100


class LiveLine:
    """A context that shows the newest ``RunProgress``; finished trials scroll by above it."""

    def __init__(self, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.live import Live

        # Asked of the stream itself: FORCE_COLOR and the like, set in many a CI, make no log a terminal.
        self._console = Console(stderr=True, highlight=False, force_terminal=sys.stderr.isatty())
        self._quiet = quiet
        self._on = not quiet and self._console.is_terminal
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._on else None
        self._said: set[str] = set()
        self._counts: dict[TrialPhase, int] = {}
        self._current = ""

    def __enter__(self) -> LiveLine:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: RunProgress) -> None:
        for note in (*progress.notes, "" if progress.counts else progress.message):
            self._say_once(note)
        if not self._quiet:
            self._scroll(progress)
        if self._live is not None:
            self._live.update(self._line(progress), refresh=True)

    def _say_once(self, text: str) -> None:
        if text and text not in self._said and (self._on or text.startswith("waiting")):
            self._said.add(text)
            self._console.print(text, style="dim", markup=False, soft_wrap=True)

    def _scroll(self, progress: RunProgress) -> None:
        """A line for a trial that just ended; trials cancelled at the end never ran."""
        finals = {phase: count for phase, count in progress.counts.items() if phase.final}
        for phase, count in finals.items():
            if count > self._counts.get(phase, 0) and self._current and phase is not TrialPhase.cancelled:
                style = "green" if phase is TrialPhase.succeeded else "yellow" if phase is TrialPhase.full else "red"
                line = f"  [{style}]{phase.value:<10}[/] {self._current}{self._where(progress)}"
                self._console.print(line, soft_wrap=True)
        self._counts = finals
        self._current = progress.name or self._current

    def _where(self, progress: RunProgress) -> str:
        """How far the run is, in a log: on a terminal the line below says it."""
        if self._on:
            return ""
        left = f", {clock(progress.remaining_s)} left" if progress.remaining_s else ""
        return f"  {progress.done}/{counted(progress.total, 'trial')}{left}"

    def _line(self, progress: RunProgress) -> RenderableType:
        """One line at any width: the least important part comes last and is cut off."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        parts = [f"{progress.done}/{counted(progress.total, 'trial')}"]
        for phase in (TrialPhase.failed, TrialPhase.invalid):
            if progress.counts.get(phase):
                parts.append(f"{progress.counts[phase]} {phase.value.lower()}")
        if progress.message == "stopping":
            parts.append("stopping (Ctrl-C again to stop at once)")
        elif progress.remaining_s is not None and progress.trial is not None:
            parts.append(f"{clock(progress.remaining_s)} left")
        if progress.trial is not None:
            parts.append(progress.trial.point.name + (f" ({progress.phase.value.lower()})" if progress.phase else ""))
        parts += _pace(progress)
        grid = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [Text(" · ".join(parts), no_wrap=True, overflow="ellipsis")]
        if self._console.width >= _ROOM_FOR_A_BAR:
            cells.insert(0, ProgressBar(total=max(1, progress.total), completed=progress.done, width=24))
        grid.add_row(*cells)
        return grid


def _pace(progress: RunProgress) -> list[str]:
    pace = progress.pace
    if pace is None:
        return []
    where = "warm-up" if pace.window < 0 else f"window {pace.window + 1}"
    parts = [f"step {pace.step + 1} ({where})"]
    if pace.steps_per_second is not None and pace.samples_per_second is not None:
        parts.append(f"{pace.steps_per_second:.1f} steps/s, {pace.samples_per_second:,.0f} samples/s")
    return parts


def clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
