"""What an engine reports on an experiment and on a trial; every field of both CRDs' status is declared here.

A status is bounded whatever the experiment's size (about 100 KiB at the very most): lists have a limit, and text is
cut to one short line where it is made, because an API server refuses a status with one message that is too long.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.model import Described, Model
from scalecurve_api.problem import printable
from scalecurve_api.record.trial_record import Summary, Timeline
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.pod_options import MAX_NODES, DnsName
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialPhase

MAX_BYTES = 100 * 1024
MAX_CURRENT = 20
MAX_HEADLINES = 40
MAX_HISTORY = 208  # more than failurePolicy can request: 100 Failed and 100 Invalid attempts, and the last
MAX_LEFT_OUT = 16
MAX_PARTS = 64
_CUT = "..."


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` UTF-8 bytes, with nothing in it that moves a terminal's cursor."""
    # Half a surrogate cannot be sent, and "?" can.
    line = printable(" ".join(text.encode(errors="replace").decode().split()))
    if len(line.encode()) <= most:
        return line
    return line.encode()[: most - len(_CUT)].decode(errors="ignore") + _CUT


def _line(most: int) -> BeforeValidator:
    return BeforeValidator(lambda value: one_line(value, most) if isinstance(value, str) else value)


def _first(most: int) -> BeforeValidator:
    def cut(value: Any) -> Any:
        return value[:most] if isinstance(value, list) else value

    return BeforeValidator(cut)


Word = Annotated[str, _line(64), StringConstraints(max_length=64)]
Title = Annotated[str, _line(128), StringConstraints(max_length=128)]
Line = Annotated[str, _line(512), StringConstraints(max_length=512)]
Hostname = Annotated[str, StringConstraints(max_length=63)]


class Condition(Described):
    """A standard Kubernetes condition."""

    type: Annotated[str, StringConstraints(max_length=64)] = Field(description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether the condition holds.")
    observed_generation: int | None = Field(default=None, description="Generation of the spec that it was set for.")
    last_transition_time: AwareDatetime = Field(description="When the status last changed.")
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=64)]
    """One word for the last change."""
    message: Line = Field(description="Details of the last change.")


Conditions = Annotated[
    list[Condition],
    Field(max_length=8, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class PhaseCounts(Model):
    """Trials in each phase; they add up to the total."""

    pending: int = Field(default=0, description="Trials that are Pending.")
    queued: int = Field(default=0, description="Trials that are Queued.")
    starting: int = Field(default=0, description="Trials that are Starting.")
    running: int = Field(default=0, description="Trials that are Running.")
    collecting: int = Field(default=0, description="Trials that are Collecting.")
    succeeded: int = Field(default=0, description="Trials that are Succeeded.")
    failed: int = Field(default=0, description="Trials that are Failed.")
    invalid: int = Field(default=0, description="Trials that are Invalid.")
    cancelled: int = Field(default=0, description="Trials that are Cancelled.")
    full: int = Field(default=0, description="Trials that are Full: the batch did not fit, which ends a ladder.")


class Headline(Model):
    """One series at its largest measured worker count, formatted; the numbers are in the bundle."""

    series: Title = Field(description="Name of the series.")
    mode: Mode = Field(description="How the batch follows the worker count.")
    workers: int = Field(description="Largest measured worker count.")
    efficiency: Word | None = Field(default=None, description="Parallel efficiency, formatted.")
    speed_up: Word | None = Field(default=None, description="Speed-up over the baseline, formatted.")
    throughput: Word | None = Field(default=None, description="Throughput, formatted.")


class CurrentTrial(Model):
    """A trial that is running."""

    name: DnsName = Field(description="Name of the ScalingTrial object.")
    point: Title = Field(description="Name of the point.")
    workers: int = Field(description="Number of workers.")
    phase: TrialPhase = Field(description="Phase of the trial.")
    attempt: int = Field(default=1, description="Number of the attempt, from 1.")
    since: AwareDatetime | None = Field(default=None, description="When the attempt began.")


class ExperimentStatus(Described):
    """The progress of an experiment."""

    observed_generation: int | None = Field(default=None, description="Generation of the spec that this status is of.")
    phase: ExperimentPhase | None = Field(default=None, description="Phase of the experiment.")
    message: Line | None = Field(default=None, description="What happened last, or what is wrong.")
    total: int | None = Field(default=None, description="Trials of the plan.")
    done: int | None = Field(default=None, description="Trials in a final phase.")
    progress: Word | None = Field(default=None, description="Trials in a final phase, of all.")
    counts: PhaseCounts | None = Field(default=None, description="Trials in each phase.")
    best_efficiency: Word | None = Field(default=None)
    """Efficiency of the best series at its largest worker count."""
    headlines: Annotated[list[Headline], _first(MAX_HEADLINES)] = Field(default=[], max_length=MAX_HEADLINES)
    """Results by series."""
    current: Annotated[list[CurrentTrial], _first(MAX_CURRENT)] = Field(default=[], max_length=MAX_CURRENT)
    """Trials that are running."""
    runner: Runner | None = Field(default=None, description="Kind of job that carries the trials.")
    runner_reason: Line | None = Field(default=None, description="Why that kind.")
    started_at: AwareDatetime | None = Field(default=None, description="When the first trial began.")
    ended_at: AwareDatetime | None = Field(default=None, description="When the experiment ended.")
    conditions: Conditions = Field(default=[], description="Standard conditions.")


_OBJECT = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


class AttemptStatus(Described):
    """An ended attempt."""

    attempt: int = Field(description="Number of the attempt, from 1.")
    phase: TrialPhase = Field(description="Phase in which it ended.")
    reason: Word | None = Field(default=None, description="Why it is Failed or Invalid.")
    message: Annotated[str, _line(96), StringConstraints(max_length=96)] | None = None
    """Details of the reason."""
    ended_at: AwareDatetime | None = Field(default=None, description="When it ended.")


class KeptRecord(Described):
    """Where the complete record of a trial is in the cluster, with its checksum."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] = Field(description="Checksum of the record.")
    bytes: int = Field(description="Size of the record.")
    config_maps: list[DnsName] = Field(default=[], max_length=MAX_PARTS)
    """ConfigMaps that hold its parts, in order."""
    object: Annotated[str, StringConstraints(pattern=_OBJECT, max_length=200)] | None = None
    """Name of the object that holds it, below the operator's recordsUrl, where it is not in ConfigMaps."""
    left_out: list[Title] = Field(default=[], max_length=MAX_LEFT_OUT, description="What did not fit.")


class TrialStatus(Described):
    """The state of a trial."""

    observed_generation: int | None = Field(default=None, description="Generation of the spec that this status is of.")
    phase: TrialPhase | None = Field(default=None, description="Phase of the trial.")
    reason: Word | None = Field(default=None, description="Why it is Failed or Invalid.")
    message: Line | None = Field(default=None, description="Details of the reason, or what it waits for.")
    attempts: int | None = Field(default=None, description="Attempts begun, lost ones included.")
    history: list[AttemptStatus] = Field(default=[], max_length=MAX_HISTORY)
    """Ended attempts, oldest first."""
    job: DnsName | None = Field(default=None, description="Name of the newest attempt's job.")
    job_uid: Word | None = Field(default=None, description="UID of that job, once it has been seen.")
    nodes: Annotated[list[Hostname], _first(MAX_NODES)] = Field(default=[], max_length=MAX_NODES)
    """Nodes on which the newest attempt's pods ran."""
    throughput: Word | None = Field(default=None, description="Throughput, formatted.")
    summary: Summary | None = Field(default=None, description="Results in numbers.")
    record: KeptRecord | None = Field(default=None, description="Where the complete record is.")
    unproved: list[Word] = Field(default=[], max_length=4)
    """What was not observed of its program; such a trial enters no headline."""
    timeline: Annotated[list[Timeline], _first(64)] = Field(default=[], max_length=64)
    """When each phase began."""
    started_at: AwareDatetime | None = Field(default=None, description="When the newest attempt began.")
    ended_at: AwareDatetime | None = Field(default=None, description="When the trial ended.")
    conditions: Conditions = Field(default=[], description="Standard conditions.")
