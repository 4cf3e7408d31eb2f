"""What others published, in one form: points with their runs, and where each figure comes from."""

from dataclasses import dataclass
from statistics import median

SAMPLES = "samples/s"
TOKENS = "tokens/s"
NOT_STATED = "not stated"
UNSTEADY = 0.03
"""How far from the median of its runs, as a share of it, a run makes a point unsteady."""


class CorpusError(ValueError):
    """A source or a corpus that cannot be read: one line with the file, the place in it, and what is expected."""


@dataclass(frozen=True)
class PublishedSource:
    """Where points were published; ``license`` is an SPDX id or ``not stated``, ``retrieved`` a date or a commit."""

    name: str
    title: str
    url: str
    license: str
    retrieved: str


@dataclass(frozen=True)
class PublishedRun:
    """One run of a point. A table that has only a figure a point makes one run without a start.

    ``minutes`` are from run_start to run_stop, None where the target was not reached. ``rate`` is over all devices, in
    the unit of the point, None where that is not proved; then ``relative`` has the figure as it was logged: only ratios
    between runs of one point mean anything. ``progress`` is what the events of the log say beside it: samples per
    second between them, evaluation excluded, start-up and checkpoints included. ``resolution`` is the step of a rate
    that was computed from a rounded time, as a share of it: two runs that differ by less are not told apart.
    """

    started_at: float | None
    minutes: float | None
    rate: float | None
    step_s: tuple[float, ...] = ()
    relative: float | None = None
    progress: float | None = None
    resolution: float | None = None


@dataclass(frozen=True)
class PublishedPoint:
    """What one submitter measured on one system, as it was published.

    ``unit`` is None where it could not be proved, and ``reason`` says why; ``basis`` says what a proved rate was
    computed from. ``workers`` are devices in all. ``aliases`` are other names of the same runs: ``submitter/system``,
    with ``source:`` in front if that is another one. ``scaling`` is what MLPerf multiplies a time to train by, where
    the runs needed fewer samples than the reference. ``mfu`` is a share, from 0 to 1.
    """

    source: str
    submitter: str
    system: str
    benchmark: str
    device: str
    nodes: int
    devices_per_node: int
    workers: int
    global_batch: int | None
    precision: str | None
    software: str
    interconnect: str
    unit: str | None
    reason: str
    basis: str
    runs: tuple[PublishedRun, ...]
    aliases: tuple[str, ...] = ()
    parameters: float | None = None
    sequence_length: int | None = None
    mfu: float | None = None
    scaling: float | None = None

    @property
    def batch_per_device(self) -> float | None:
        """The global batch divided by the devices; below 1 where devices share the work on a sample."""
        return None if self.global_batch is None else self.global_batch / self.workers

    @property
    def kind(self) -> tuple[object, ...]:
        """What systems have in common that differ by their machines and software alone."""
        size = (self.nodes, self.workers, self.global_batch)
        return (self.source, self.benchmark, self.device, *size, self.precision, self.unit)

    @property
    def rates(self) -> tuple[float, ...]:
        """The proved rates of the runs, in time order."""
        return tuple(run.rate for run in self.runs if run.rate is not None)

    @property
    def figures(self) -> tuple[float, ...]:
        """The rates of the runs, or where their unit is not proved the figures as logged: for ratios between runs."""
        found = (run.rate if run.rate is not None else run.relative for run in self.runs)
        return tuple(figure for figure in found if figure is not None)

    @property
    def farthest(self) -> float | None:
        """How far the farthest run is from the median, as a share of it; None of one run."""
        middle = median(self.figures) if len(self.figures) > 1 else 0
        return max(abs(figure / middle - 1) for figure in self.figures) if middle else None

    @property
    def is_unsteady(self) -> bool:
        """Whether a run is more than ``UNSTEADY`` from the others' median."""
        return (self.farthest or 0) > UNSTEADY

    @property
    def overlaps(self) -> int:
        """How many runs began before an earlier one ended: those were on different machines of the system."""
        count, free_at = 0, 0.0
        for run in self.runs:
            if run.started_at is None or run.minutes is None:
                continue
            count += run.started_at < free_at
            free_at = max(free_at, run.started_at + run.minutes * 60)
        return count

    @property
    def minutes_to_target(self) -> float | None:
        """Time to train by MLPerf's rule: the mean without the fastest and the slowest run, times ``scaling``.

        A run that missed its target is the slowest. None where two missed it, and below three runs.
        """
        reached = sorted(run.minutes for run in self.runs if run.minutes is not None)
        missed = len(self.runs) - len(reached)
        kept = reached[1:] if missed else reached[1:-1]
        return sum(kept) / len(kept) * (self.scaling or 1) if missed <= 1 and kept and len(self.runs) >= 3 else None


@dataclass(frozen=True)
class Corpus:
    """Sources and the points that they published."""

    sources: tuple[PublishedSource, ...]
    points: tuple[PublishedPoint, ...]
