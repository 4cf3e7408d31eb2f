"""``trial.json``: the one record of one trial, the same bytes from either engine.

``digest`` is the sha256 of the record's canonical JSON without the digest itself; ``files`` holds the sha256 of the
tables beside it. A record that does not match its digest is refused on loading.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Final, Literal

from pydantic import Field

from scalecurve_api.model import Model, canonical_json
from scalecurve_api.record.rank import (
    AllReduceRow,
    DatasetFacts,
    DeviceSamples,
    Evaluation,
    NoiseScaleRow,
    QuantizationFacts,
    RankTopology,
    ServerCounts,
    Traffic,
    Warmup,
    WindowKind,
)
from scalecurve_api.spec.trial import TrialPhase, TrialSpec

RECORD_SCHEMA: Final = "scalecurve.dev/record/v1alpha1"


class Check(Model):
    """The result of a check; ``passed`` None means that it could not be made, and ``detail`` says why."""

    name: str
    passed: bool | None = None
    detail: str


class TrialWindow(Model):
    """A window over all ranks: ``wall_ns`` is the slowest rank's, ``samples`` and ``energy_j`` are sums."""

    index: int
    kind: WindowKind
    start_ns: int
    wall_ns: int
    fastest_ns: int
    slowest_rank: int
    first_step: int
    steps: int
    samples: int
    energy_j: float | None = None


class Timeline(Model):
    """When a phase began, in Unix ns."""

    phase: Annotated[str, Field(max_length=64)] = Field(description="Name of the phase.")
    at_ns: int = Field(description="When it began, in Unix nanoseconds.")


class StepTimes(Model):
    """Over the timed windows, of the slowest rank at each step, in seconds."""

    count: int = Field(description="Number of steps.")
    mean: float = Field(description="Mean step time, in seconds.")
    median: float = Field(description="Median step time, in seconds.")
    p95: float = Field(description="Step time at the 95th percentile, in seconds.")
    p99: float = Field(description="Step time at the 99th percentile, in seconds.")
    maximum: float = Field(description="Longest step, in seconds.")


class Exposed(Model):
    """Seconds a step: with the all-reduce, without it, and the difference."""

    method: str = Field(description="How communication was taken out of the step.")
    with_s: float = Field(description="Seconds in a step with the all-reduce.")
    without_s: float = Field(description="Seconds in a step without it.")
    exposed_s: float = Field(description="Their difference.")


class Summary(Model):
    """The results that also fit into a termination message (at most 4 KiB)."""

    samples: int = Field(description="Samples in the timed windows.")
    wall_s: float = Field(description="Seconds of the timed windows.")
    throughput: float = Field(description="Samples per second over all workers.")
    sample_unit: Literal["samples", "tokens"] = Field(default="samples", description="What a sample is.")
    step: StepTimes | None = Field(default=None, description="Times of the timed steps.")
    exposed: Exposed | None = Field(default=None, description="Exposed communication.")
    plain_throughput: float | None = Field(default=None, description="Throughput of one worker without any wrapper.")
    mfu: float | None = Field(default=None, description="Model FLOPs utilization.")
    energy_j: float | None = Field(default=None, description="Energy of the timed windows, in joules.")
    energy_j_per_sample: float | None = Field(default=None, description="Energy per sample, in joules.")
    peak_memory_bytes: int | None = Field(default=None, description="Peak memory of the worker that used most.")
    last_loss: float | None = Field(default=None, description="Last loss of the timed windows.")
    final_accuracy: float | None = Field(default=None, description="Validation accuracy after the last epoch.")
    best_accuracy: float | None = Field(default=None, description="Best validation accuracy.")
    seconds_to_target: float | None = Field(default=None, description="Seconds of training until the target accuracy.")
    peak_busbw: float | None = Field(
        default=None, description="Highest bus bandwidth of the all-reduce benchmark, in GB/s."
    )


class TrialRecord(Model):
    """Everything that is kept of a trial except its tables and logs."""

    schema_: Literal["scalecurve.dev/record/v1alpha1"] = Field(default=RECORD_SCHEMA, alias="schema")
    trial: TrialSpec
    attempt: int = 1
    phase: TrialPhase
    reason: str | None = None
    message: str = ""
    engine: str = Field(description="local, or kubernetes")
    engine_version: str | None = Field(default=None, description="the operator's; the worker's is in versions")
    topology: list[RankTopology] = []
    backend: str | None = None
    strategy: str | None = None
    versions: dict[str, str] = {}
    environment: dict[str, str] = {}
    parameter_checksums: list[str | None] = []
    parameters: int | None = None
    traffic: Traffic | None = None
    servers: list[ServerCounts] = []
    flops_per_sample: float | None = None
    peak_flops: float | None = None
    options: dict[str, object] = {}
    warmup: Warmup | None = None
    windows: list[TrialWindow] = []
    checks: list[Check] = []
    device_samples: list[DeviceSamples | None] = []
    foreign_load: list[float | None] = []
    stolen_load: list[float | None] = []
    evaluations: list[Evaluation] = []
    dataset: DatasetFacts | None = None
    noise_scale: list[NoiseScaleRow] = []
    quantization: QuantizationFacts | None = None
    allreduce: list[AllReduceRow] = []
    summary: Summary | None = None
    timeline: list[Timeline] = []
    exit_codes: dict[str, int | None] = {}
    log_tail: dict[str, list[str]] = Field(default={}, description="last lines of each rank, when it did not end well")
    left_out: list[str] = Field(default=[], description="what did not fit into the record")
    files: dict[str, str] = Field(default={}, description="table beside this file -> sha256")
    digest: str | None = None

    def sealed(self) -> TrialRecord:
        """This record with its digest."""
        return self.model_copy(update={"digest": self.compute_digest()})

    def stored(self) -> bytes:
        return (json.dumps(self.wire(), indent=1, sort_keys=True, allow_nan=False) + "\n").encode()

    def compute_digest(self) -> str:
        """sha256 over the canonical JSON of all but ``digest``."""
        wire = self.wire()
        wire.pop("digest", None)
        return hashlib.sha256(canonical_json(wire).encode()).hexdigest()
