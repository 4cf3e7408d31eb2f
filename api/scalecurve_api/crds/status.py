"""What an engine reports on an experiment and on a trial; every field of both CRDs' status is declared here.

A status is bounded whatever the experiment's size (about 100 KiB at the very most): lists have a limit, and text is
cut to one short line where it is made, because an API server refuses a whole status for one long message.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.model import Model
from scalecurve_api.record.trial_record import Summary, Timeline
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialPhase

MAX_BYTES = 100 * 1024
MAX_CURRENT = 20
MAX_NODES = 64
MAX_HEADLINES = 40
MAX_HISTORY = 208
"""More than failurePolicy can ever ask for: 100 Failed and 100 Invalid attempts, and the last."""
MAX_LEFT_OUT = 16
MAX_PARTS = 64
_CUT = "..."


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` UTF-8 bytes."""
    line = " ".join(text.split())
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
ObjectName = Annotated[str, StringConstraints(max_length=253)]


class Condition(Model):
    """Kubernetes' standard condition."""

    type: Annotated[str, StringConstraints(max_length=64)]
    status: Literal["True", "False", "Unknown"]
    observed_generation: int | None = None
    last_transition_time: AwareDatetime
    reason: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", max_length=64)]
    message: Line


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class Counts(Model):
    """Trials in each phase; they add up to the total."""

    pending: int = 0
    queued: int = 0
    starting: int = 0
    running: int = 0
    collecting: int = 0
    succeeded: int = 0
    failed: int = 0
    invalid: int = 0
    cancelled: int = 0


class Headline(Model):
    """One series at its largest measured worker count, spelled for people; the numbers are in the bundle."""

    series: Title
    mode: Mode
    workers: int
    efficiency: Word | None = None
    speed_up: Word | None = None
    throughput: Word | None = None


class CurrentTrial(Model):
    """A trial that has begun and not ended."""

    name: ObjectName
    point: Title
    workers: int
    phase: TrialPhase
    attempt: int = 1
    since: AwareDatetime | None = None


class ExperimentStatus(Model):
    """The progress of an experiment."""

    observed_generation: int | None = None
    phase: ExperimentPhase | None = None
    message: Line | None = None
    total: int | None = Field(default=None, description="trials of the plan")
    done: int | None = Field(default=None, description="trials in a final phase")
    progress: Word | None = Field(default=None, description="done/total")
    counts: Counts | None = None
    best_efficiency: Word | None = Field(default=None, description="the best series at its largest worker count")
    headlines: Annotated[list[Headline], _first(MAX_HEADLINES)] = Field(default=[], max_length=MAX_HEADLINES)
    current: Annotated[list[CurrentTrial], _first(MAX_CURRENT)] = Field(default=[], max_length=MAX_CURRENT)
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    conditions: Conditions = []


class Attempt(Model):
    """An attempt whose result is kept."""

    attempt: int
    phase: TrialPhase
    reason: Word | None = None
    message: Annotated[str, _line(96), StringConstraints(max_length=96)] | None = None
    ended_at: AwareDatetime | None = None


class KeptRecord(Model):
    """Where the whole record of a trial is kept in the cluster, and how to know that it is whole."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    bytes: int
    config_maps: list[ObjectName] = Field(default=[], max_length=MAX_PARTS, description="in the order to be joined")
    left_out: list[Title] = Field(default=[], max_length=MAX_LEFT_OUT, description="what did not fit")


class TrialStatus(Model):
    """One trial as it stands."""

    observed_generation: int | None = None
    phase: TrialPhase | None = None
    reason: Word | None = Field(default=None, description="why it is Failed or Invalid")
    message: Line | None = None
    attempts: int | None = Field(default=None, description="attempts begun, lost ones included")
    history: list[Attempt] = Field(
        default=[], max_length=MAX_HISTORY, description="attempts whose result is kept, oldest first"
    )
    job: ObjectName | None = Field(default=None, description="the newest attempt's job")
    job_uid: Word | None = Field(default=None, description="set once the job was seen to exist")
    nodes: Annotated[list[Hostname], _first(MAX_NODES)] = Field(
        default=[], max_length=MAX_NODES, description="where the newest attempt's pods ran"
    )
    throughput: Word | None = Field(default=None, description="spelled for people")
    summary: Summary | None = None
    record: KeptRecord | None = None
    timeline: Annotated[list[Timeline], _first(64)] = Field(default=[], max_length=64)
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    conditions: Conditions = []
