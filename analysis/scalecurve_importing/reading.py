"""What a source states of one run, in one form for all formats; and how a source is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scalecurve_api.features.collectives.facts import AllReduceRow, CollectiveRow
from scalecurve_api.record.rank import RankTopology
from scalecurve_api.record.transport import Transport
from scalecurve_api.spec.scaling import Mode

Value = bool | int | float | str


class SourceError(ValueError):
    """A source that cannot be imported: one line with the file, the place in it, what is there and what is allowed."""


class OutOfRangeError(SourceError):
    """A number that no measurement has; whoever knows the file names it."""


class Unit(StrEnum):
    """What throughput counts: samples, tokens, arithmetic, complete runs, or what the baseline does in a second."""

    samples = "samples"
    tokens = "tokens"
    teraflop = "TFLOP"
    runs = "runs"
    baseline_seconds = "baseline-seconds"


LEAST, MOST_WORK, MOST_SECONDS = 1e-9, 1e18, 1e9
"""Of a stretch: less or more is no measurement, and what is made of it would not be finite"""


@dataclass(frozen=True)
class Stretch:
    """A timed part of a run: work in the reading's unit over all workers, seconds, and steps where they are known."""

    work: float
    seconds: float
    steps: int | None = None

    def __post_init__(self) -> None:
        for name, value, most in (("work", self.work, MOST_WORK), ("seconds", self.seconds, MOST_SECONDS)):
            if not LEAST <= value <= most:
                raise OutOfRangeError(f"{value:g} {name} in one stretch of a run; expected {LEAST:g} to {most:g}")


@dataclass(frozen=True)
class WorkerPrice:
    """Of one worker for one hour."""

    per_worker_hour: float
    currency: str


@dataclass(frozen=True)
class Reading:
    """One run. ``place`` names the file and the place in it; what the source does not state is None.

    ``factors`` are what else differs between runs, such as the device: each becomes an axis where it has two values.
    """

    place: str
    workers: int
    nodes: int | None = None
    stretches: tuple[Stretch, ...] = ()
    unit: Unit = Unit.samples
    mode: Mode | None = None
    global_batch: int | None = None
    batch_per_worker: int | None = None
    accumulation: int = 1
    repetition: str | None = None
    price: WorkerPrice | None = None
    model: str | None = None
    factors: Mapping[str, Value] = field(default_factory=dict)
    allreduce: tuple[AllReduceRow, ...] = ()
    collectives: tuple[CollectiveRow, ...] = ()
    """All-reduces among them, where other collectives are in the same bundle."""
    backend: str | None = None
    """The library that carried the collectives."""
    topology: tuple[RankTopology, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    transport: Transport | None = None
    benchmark: Mapping[str, str] = field(default_factory=dict)
    """What makes a benchmark of collectives another one, such as its operation and its library's version."""
    wrong: str = ""
    """Why the run's numbers are void, in the source's own words; it counts for nothing then."""
    seconds_to_target: float | None = None
    final_accuracy: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def times_collectives(self) -> bool:
        """Whether it is a benchmark of collectives, and no training."""
        return bool(self.allreduce or self.collectives)

    @property
    def throughput(self) -> float | None:
        """Work per second over all workers."""
        seconds = sum(each.seconds for each in self.stretches)
        return sum(each.work for each in self.stretches) / seconds if seconds else None
