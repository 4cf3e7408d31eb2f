"""``trial.json``: the one record of one trial, the same bytes from either engine.

``digest`` is the sha256 of the record's canonical JSON without the digest itself; ``files`` holds the sha256 of the
tables beside it. A record that does not match its digest is refused on loading.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from scalecurve_api.model import FileName, Int64, Model, canonical_json
from scalecurve_api.record.fact_kind import Recorded
from scalecurve_api.record.rank import (
    DeviceSamples,
    RankTopology,
    Traffic,
    Usage,
    Warmup,
    WindowKind,
)
from scalecurve_api.record.sections import SectionTimes
from scalecurve_api.record.step_trace import StepTrace
from scalecurve_api.record.transport import Transport
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

RECORD_SCHEMA: Final = "scalecurve.dev/record/v1alpha1"


class Origin(StrEnum):
    """Who measured a trial: an engine of ScaleCurve, or somebody else, in a file that was imported unchecked."""

    measured = "measured"
    imported = "imported"


class Check(Model):
    """The result of a check; ``passed`` None means that it could not be made, and ``detail`` says why."""

    name: str
    passed: bool | None = None
    detail: str


class TrialWindow(Model):
    """A window over all ranks: ``wall_ns`` is the slowest rank's, ``samples`` and ``energy_j`` are sums."""

    index: Int64
    kind: WindowKind
    start_ns: Int64
    wall_ns: Int64
    fastest_ns: Int64
    slowest_rank: Int64
    first_step: Int64
    steps: Int64
    samples: Int64
    sequences: Int64 | None = Field(default=None, description="samples of the batch, where samples counts its tokens")
    energy_j: float | None = None
    loader_ns: Int64 | None = Field(default=None, description="waited for the data loader, on the rank that did most")
    paused_ns: Int64 | None = Field(default=None, description="evaluation in no window, on the rank with most")
    pauses: Int64 | None = Field(default=None, description="how many evaluations, on the rank with most")
    inputs: Int64 | None = Field(default=None, description="elements that training passes read, on all ranks")
    backwards: Int64 | None = Field(default=None, description="calls of backward(), on the rank with fewest")


class Timeline(Model):
    """When a phase began, in Unix ns."""

    phase: Annotated[str, Field(max_length=64)] = Field(description="Name of the phase.")
    at_ns: Int64 = Field(description="When it began, in Unix nanoseconds.")


class StepTimes(Model):
    """Over the timed windows, of the slowest rank at each step, in seconds."""

    count: Int64 = Field(description="Number of steps.")
    mean: float = Field(description="Mean step time, in seconds.")
    median: float = Field(description="Median step time, in seconds.")
    p95: float = Field(description="Step time at the 95th percentile, in seconds.")
    p99: float = Field(description="Step time at the 99th percentile, in seconds.")
    maximum: float = Field(description="Longest step, in seconds.")


class Exposed(Model):
    """Seconds a step: with the all-reduce, without it, and the difference."""

    method: Annotated[str, Field(max_length=256)] = Field(description="How communication was taken out of the step.")
    with_s: float = Field(description="Seconds in a step with the all-reduce.")
    without_s: float = Field(description="Seconds in a step without it.")
    exposed_s: float = Field(description="Their difference.")


class Summary(Model):
    """The results that also fit into a termination message (at most 4 KiB)."""

    samples: Int64 = Field(description="Samples in the timed windows.")
    wall_s: float = Field(description="Seconds of the timed windows.")
    throughput: float = Field(description="Samples per second over all workers.")
    sample_unit: Literal["samples", "tokens", "TFLOP", "runs", "baseline-seconds"] = Field(
        default="samples",
        description="What a sample is; of imported numbers also 1e12 operations, a run, or the baseline's second.",
    )
    step: StepTimes | None = Field(default=None, description="Times of the timed steps.")
    exposed: Exposed | None = Field(default=None, description="Exposed communication.")
    loader_s: float | None = Field(default=None, description="Seconds of a step spent waiting for the data loader.")
    plain_throughput: float | None = Field(default=None, description="Throughput of one worker without any wrapper.")
    mfu: float | None = Field(default=None, description="Model FLOPs utilization.")
    hfu: float | None = Field(default=None, description="Hardware FLOPs utilization: recomputation counts, too.")
    energy_j: float | None = Field(default=None, description="Energy of the timed windows, in joules.")
    energy_j_per_sample: float | None = Field(default=None, description="Energy per sample, in joules.")
    peak_memory_bytes: Int64 | None = Field(default=None, description="Peak memory of the worker that used most.")
    last_loss: float | None = Field(default=None, description="Last loss of the timed windows.")
    final_accuracy: float | None = Field(default=None, description="Validation accuracy after the last epoch.")
    best_accuracy: float | None = Field(default=None, description="Best validation accuracy.")
    seconds_to_target: float | None = Field(default=None, description="Seconds of training until the target accuracy.")
    peak_busbw: float | None = Field(
        default=None, description="Highest bus bandwidth of the all-reduce benchmark, in GB/s."
    )


class TrialRecord(Recorded):
    """Everything that is kept of a trial except its tables and logs."""

    of_trial: ClassVar[bool] = True
    schema_: Literal["scalecurve.dev/record/v1alpha1"] = Field(default=RECORD_SCHEMA, alias="schema")
    trial: TrialSpec
    attempt: Int64 = 1
    phase: TrialPhase
    reason: str | None = None
    message: str = ""
    engine: str = Field(description="local, kubernetes, or import")
    origin: Origin = Field(default=Origin.measured, description="whether an engine of ScaleCurve measured it")
    source: str | None = Field(default=None, description="of an imported trial: the file, and the place in it")
    engine_version: str | None = Field(default=None, description="the operator's; the worker's is in versions")
    paired: str | None = Field(
        default=None, description="of trials that two experiments ran in turns: the session, the same in both bundles"
    )
    topology: list[RankTopology] = []
    backend: str | None = None
    strategy: str | None = None
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}
    parameter_checksums: list[str | None] = []
    parameters: Int64 | None = None
    trained_parameters: Int64 | None = None
    traffic: Traffic | None = None
    flops_per_sample: float | None = None
    flops_spread: list[float] = []
    hardware_flops_per_sample: float | None = None
    peak_flops: float | None = None
    options: dict[str, object] = {}
    warmup: Warmup | None = None
    windows: list[TrialWindow] = []
    transports: list[Transport | None] = Field(default=[], description="of each rank, where its library tells")
    sections: list[SectionTimes | None] = Field(default=[], description="of each rank")
    traces: list[StepTrace | None] = Field(default=[], description="of each rank, where it was traced")
    checks: list[Check] = []
    device_samples: list[DeviceSamples | None] = []
    foreign_load: list[float | None] = []
    own_load: list[float | None] = []
    usage: list[list[Usage]] = Field(default=[], description="of each rank, over the windows")
    stolen_load: list[float | None] = []
    summary: Summary | None = None
    timeline: list[Timeline] = []
    exit_codes: dict[str, Int64 | None] = {}
    log_tail: dict[str, list[str]] = Field(default={}, description="last lines of each rank, when it did not end well")
    left_out: list[str] = Field(default=[], description="what did not fit into the record")
    files: dict[FileName, str] = Field(default={}, description="table beside this file -> sha256")
    ledger: str | None = Field(default=None, description="digest of the attempt's first entry in the bundle's ledger")
    digest: str | None = None

    @property
    def imported(self) -> bool:
        return self.origin is Origin.imported

    @property
    def precision(self) -> str | None:
        """Arithmetic of the passes, as far as it is known: of an imported trial what its source states."""
        if not self.imported:
            return self.trial.workload.precision.value
        stated = getattr(self.trial.workload, "parameters", {}).get("precision")
        return None if stated is None else str(stated)

    @property
    def throughput(self) -> float | None:
        """Samples per second; None unless the trial succeeded."""
        return self.summary.throughput if self.summary and self.phase is TrialPhase.succeeded else None

    def sealed(self) -> TrialRecord:
        return self.model_copy(update={"digest": self.compute_digest()})

    def stored(self) -> bytes:
        return (json.dumps(self.wire(), indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    def compute_digest(self) -> str:
        """sha256 over the canonical JSON of all but ``digest``."""
        return stored_digest(self.wire())


def stored_digest(tree: Mapping[str, Any]) -> str:
    """sha256 over the canonical JSON of a record as it is stored, all but its ``digest``.

    What an older version stored lacks the fields that came since: only its own text has its digest.
    """
    return hashlib.sha256(canonical_json({k: v for k, v in tree.items() if k != "digest"}).encode()).hexdigest()
