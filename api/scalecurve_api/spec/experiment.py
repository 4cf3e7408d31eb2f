"""``ScalingExperiment``: what the user wants measured. The same model validates YAML and generates the CRD.

Only what a single field can say about itself is checked here, and in the modules of its parts (``scaling``,
``workload``, ``measure``, ``pod_options``); rules over several fields are in ``rules``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, SerializeAsAny, StrictBool, StrictFloat, StrictInt, StrictStr, StringConstraints

from scalecurve_api.model import Count, Model, Natural, Real
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.pod_options import DnsName, PodOptions, Results
from scalecurve_api.spec.scaling import Placement, Scaling

AxisValue = StrictBool | StrictInt | StrictFloat | StrictStr
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Quantity = StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=64)]


class Cost(Model):
    """Price of one worker for one hour."""

    per_worker_hour: Real = Field(ge=0, le=1_000_000)
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    dataset_samples: Count | None = Field(
        default=None,
        description="samples of one epoch, for time and cost of an epoch; else the data set's own",
    )
    epochs: Count | None = Field(default=None, description="epochs of the whole training, for total time and cost")


class Resources(Model):
    """For one worker; any extended resource by its name, as nvidia.com/gpu."""

    limits: dict[Annotated[str, Field(max_length=317)], Quantity] = Field(default={}, max_length=50)


class FailurePolicy(Model):
    """What happens after a trial that did not succeed."""

    retries: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="further attempts of a Failed trial"
    )
    retry_invalid: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="further attempts of an Invalid trial"
    )
    max_failed_trials: Natural = Field(
        default=3, description="the experiment ends as Failed when more trials than this have failed"
    )


class ExperimentSpec(Model):
    """The whole request; immutable once started, but for suspend and cancel."""

    scaling: Scaling
    placement: Placement = Placement()
    workload: SerializeAsAny[Workload] = TorchWorkload()
    matrix: dict[str, Annotated[list[AxisValue], Field(min_length=1, max_length=1000)]] = Field(
        default={}, max_length=16, description="further axes: field of the workload -> values"
    )
    exclude: list[dict[str, AxisValue]] = Field(
        default=[], max_length=1000, description="combinations to leave out; every named value must match"
    )
    measure: Measure = Measure()
    cost: Cost | None = None
    runner: Runner | None = None
    resources: Resources = Resources()
    failure_policy: FailurePolicy = FailurePolicy()
    deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000, strict=True)] = Field(
        default=3600, description="a trial that has not ended by then is Failed"
    )
    parallelism: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1
    pool: Name = Field(default="default", description="on a cluster, experiments of one pool take turns")
    queue: DnsName | None = Field(default=None, description="Kueue's local queue that admits the jobs")
    pod: PodOptions = PodOptions()
    results: Results | None = None
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000, strict=True)] | None = Field(
        default=None, description="on a cluster, delete the experiment and its records so long after its end"
    )
    suspend: StrictBool = False
    cancel: StrictBool = False


class Metadata(Model):
    """The part of Kubernetes' object metadata that ScaleCurve reads; the rest passes by."""

    model_config = ConfigDict(extra="ignore")

    name: Name
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ScalingExperiment(Model):
    """One YAML in, one trustworthy scaling curve out."""

    api_version: Literal["scalecurve.dev/v1alpha1"]
    kind: Literal["ScalingExperiment"]
    metadata: Metadata
    spec: ExperimentSpec
    status: dict[str, Any] | None = Field(default=None, description="written by the engine, ignored on input")
