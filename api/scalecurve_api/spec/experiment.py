"""``ScalingExperiment``: what to measure. The same model validates YAML and generates the CRD.

Only what a single field can say about itself is checked here, and in the modules of its parts (``scaling``,
``workload``, ``measure``, ``pod_options``); rules over several fields are in ``rules``.
"""

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

    per_worker_hour: Real = Field(ge=0, le=1_000_000, description="Price of one worker for one hour.")
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = Field(
        default="USD", description="Currency of the price, such as USD."
    )
    dataset_samples: Count | None = Field(
        default=None, description="Samples in an epoch, for time and cost of an epoch; the data set's own by default."
    )
    epochs: Count | None = Field(default=None, description="Epochs of the complete training, for its time and cost.")


class Resources(Model):
    """Resource limits of one worker."""

    limits: dict[Annotated[str, Field(max_length=317)], Quantity] = Field(
        default={}, max_length=50, description="Limits of one worker by resource name, such as nvidia.com/gpu."
    )


class FailurePolicy(Model):
    """What happens after a trial that did not succeed."""

    retries: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="Further attempts of a Failed trial."
    )
    retry_invalid: Annotated[int, Field(ge=0, le=100, strict=True)] = Field(
        default=0, description="Further attempts of an Invalid trial."
    )
    max_failed_trials: Natural = Field(
        default=3, description="The experiment ends as Failed when more trials than this have failed."
    )


class ExperimentSpec(Model):
    """What to measure. Only suspend and cancel may change once the experiment has started."""

    scaling: Scaling = Field(description="Worker counts, and the batch at each of them.")
    placement: Placement = Field(default=Placement(), description="How workers are placed on nodes.")
    workload: SerializeAsAny[Workload] = Field(default=TorchWorkload(), description="What runs in every worker.")
    matrix: dict[str, Annotated[list[AxisValue], Field(min_length=1, max_length=1000)]] = Field(
        default={},
        max_length=16,
        description="Further axes: a field of the workload and its values; every combination is measured.",
    )
    exclude: list[dict[str, AxisValue]] = Field(
        default=[], max_length=1000, description="Combinations to leave out; all values of a rule must match."
    )
    measure: Measure = Field(default=Measure(), description="How long and how often each point is timed.")
    cost: Cost | None = Field(default=None, description="Price of a worker, for the cost of each point.")
    runner: Runner | None = Field(
        default=None, description="Kind of Kubernetes job that carries a trial; the operator's default if unset."
    )
    resources: Resources = Field(default=Resources(), description="Resource limits of one worker.")
    failure_policy: FailurePolicy = Field(
        default=FailurePolicy(), description="What happens after a trial that did not succeed."
    )
    deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000, strict=True)] = Field(
        default=3600, description="Seconds after which a trial that has not ended is Failed."
    )
    parallelism: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        default=1, description="Trials that may run at the same time."
    )
    pool: Name = Field(default="default", description="On a cluster: experiments of one pool take turns.")
    queue: DnsName | None = Field(default=None, description="Kueue's local queue that admits the jobs.")
    pod: PodOptions = Field(default=PodOptions(), description="Settings of every pod.")
    results: Results | None = Field(default=None, description="Volume claim that takes complete records.")
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000, strict=True)] | None = Field(
        default=None,
        description="On a cluster: seconds after its end at which the experiment is deleted, with its records.",
    )
    suspend: StrictBool = Field(default=False, description="Start no more trials until this is false again.")
    cancel: StrictBool = Field(default=False, description="Stop running trials and start no more.")


class Metadata(Model):
    """The part of Kubernetes' object metadata that ScaleCurve reads; the rest is ignored."""

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
