"""What is measured at each point: timed windows, optionally a training to accuracy; and how often it is repeated."""

from pydantic import Field, StrictBool

from scalecurve_api.model import Count, Described, Natural, Real, Whole
from scalecurve_api.programs.accuracy import Accuracy
from scalecurve_api.programs.measurement import FurtherMeasurement


class Sessions(Described):
    """Sessions: all points again, at another time and on other machines, for intervals that hold beyond one session."""

    count: Whole = Field(default=1, ge=1, le=100, description="Number of sessions; each repeats every point.")
    every_hours: Real = Field(default=0, ge=0, le=8760)
    """On a cluster: hours from the start of one session to the next, which also waits for the end of the one before."""


class RequestedPrecision(Described):
    """Repeat until the efficiency of every point is known so precisely, instead of a fixed number of times."""

    efficiency: Real = Field(gt=0, lt=1)
    """Half of the width that the interval of an efficiency may have, as a share: 0.01 is one percent."""
    max_repetitions: Whole = Field(ge=2, le=1000)
    """Most repetitions of a point in a session; the least is repetitions."""


class TraceOptions(Described):
    """Untimed steps under torch's profiler: the report has what ran in them, by class of kernel and collective."""

    steps: Whole = Field(default=3, ge=1, le=20, description="Steps that are traced, after the last timed window.")
    keep: StrictBool = False
    """Keep the trace itself, logs/trace-rank-N.json.gz for Perfetto; in a pod, in the volume of spec.results."""


class Measure(Described):
    """How long each point is timed."""

    warmup_steps: Natural = 20
    """Least number of warm-up steps; warm-up then continues until the step time is stable."""
    max_warmup_steps: Natural = 500
    """Most warm-up steps; timing then starts although the step time is not stable."""
    windows: Whole = Field(default=5, ge=1, le=10_000, description="Timed windows of each trial.")
    steps_per_window: Whole = Field(default=50, ge=1, le=10_000_000, description="Steps in a timed window.")
    epoch_samples: Count | None = None
    """Samples in an epoch: the warm-up is then one epoch, and each window another."""
    repetitions: Whole = Field(default=3, ge=1, le=1000, description="Trials of each point.")
    seed: Natural = Field(default=0, description="Seed of the trial order, of parameters and of data.")
    exposed_communication: StrictBool = True
    """Alternate the timed windows with windows without all-reduce, to measure exposed communication."""
    trace: TraceOptions | None = None
    """Trace a few steps of every rank; of more than 16 ranks the first, the slowest and the median one."""
    accuracy: Accuracy | None = Field(default=None, description="Train to accuracy after the timed windows.")
    max_foreign_load: Real = Field(default=0.25, ge=0, le=1)
    """Share of the trial's cores that other processes may use before it is Invalid; 1 turns this off."""

    @property
    def further(self) -> list[FurtherMeasurement]:
        """What is measured after the timed windows."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return [value for value in values if isinstance(value, FurtherMeasurement)]


class Repeated(Measure):
    """How long and how often each point is timed."""

    sessions: Sessions = Sessions()
    """Further sessions: all points again at another time."""
    precision: RequestedPrecision | None = None
    """Stop repeating a series when its efficiencies are known precisely enough."""

    @property
    def most_repetitions(self) -> int:
        """Repetitions of a point in one session, if nothing ends it early."""
        return self.precision.max_repetitions if self.precision else self.repetitions

    def timing(self) -> Measure:
        """What a single trial needs to know."""
        return Measure.model_construct(**{name: getattr(self, name) for name in Measure.model_fields})
