"""``ScalingExperiment``: what to measure. The same model validates YAML and generates the CRD.

Only what a single field can say about itself is checked here, and in the modules of its parts (``scaling``,
``workload``, ``measure``, ``pod_options``); rules over several fields are in ``rules``.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    WithJsonSchema,
)

from scalecurve_api.model import Count, Described, Model, Natural, Real, SafeName, Scalar, Whole
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.job_kinds import AUTO, Runner
from scalecurve_api.spec.measure import Repeated
from scalecurve_api.spec.pod_options import DnsName, PodOptions, Results
from scalecurve_api.spec.scaling import Placement, Scaling

AxisValue = Scalar
LADDER_AXIS = "batch.perWorker"
"""The axis that ``scaling.batch.ladder`` makes"""
Name = Annotated[SafeName, StringConstraints(max_length=40)]
TransportName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+(/[A-Za-z0-9_]+)?$", max_length=40)]
RunnerOrAuto = Annotated[
    Runner | None,
    BeforeValidator(lambda value: None if value == AUTO else value),
    WithJsonSchema({"type": "string", "enum": [AUTO, *(runner.value for runner in Runner)]}),
]
"""``auto`` and nothing are one value, and so have one digest: None"""
Quantity = StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=64)]


class Cost(Described):
    """Price of one worker for one hour."""

    per_worker_hour: Real = Field(ge=0, le=1_000_000, description="Price of one worker for one hour.")
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")] = "USD"
    """Currency of the price, such as USD."""
    dataset_samples: Count | None = None
    """Samples in an epoch, for time and cost of an epoch; the data set's own by default."""
    epochs: Count | None = Field(default=None, description="Epochs of the complete training, for its time and cost.")


class Resources(Described):
    """Resource limits of one worker."""

    limits: dict[Annotated[str, Field(max_length=317)], Quantity] = Field(default={}, max_length=50)
    """Limits of one worker by resource name, such as nvidia.com/gpu."""
    device_memory_gb: Real | None = Field(default=None, gt=0, le=1_000_000)
    """Memory of one accelerator in GB; points whose training cannot fit are refused, with the arithmetic."""


class TrainingRuntime(Described):
    """The platform's runtime of Kubeflow Trainer that a TrainJob runs on."""

    name: DnsName = Field(default="torch-distributed", description="Name of the runtime.")
    kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"] = "ClusterTrainingRuntime"
    """Kind of the runtime; a TrainingRuntime is one of the experiment's namespace."""


class Expected(Described):
    """What every trial must have used, where leaving it to the machine is not enough."""

    transport: list[TransportName] = Field(default=[], max_length=20)
    """Transports that may carry the collectives, as NCCL names them (P2P, SHM, NET/IB, NET/Socket), or TCP of gloo; a
    trial that used another is Invalid. Empty: any, unless the machine has a faster one."""


class FailurePolicy(Described):
    """What happens after a trial that did not succeed."""

    retries: Whole = Field(default=0, ge=0, le=100, description="Further attempts of a Failed trial.")
    retry_invalid: Whole = Field(default=0, ge=0, le=100, description="Further attempts of an Invalid trial.")
    max_failed_trials: Natural = 3
    """The experiment ends as Failed when more trials than this have failed."""


class ReportOptions(Described):
    """How the report of the experiment is drawn."""

    x: Annotated[str, Field(max_length=253)] | None = None
    """Axis of the first figure, workers or one of matrix; workers by default, and what varies where they do not."""


class ExperimentSpec(Described):
    """What to measure. Only suspend and cancel may change once the experiment has started."""

    scaling: Scaling = Field(description="Worker counts, and the batch at each of them.")
    placement: Placement = Field(default=Placement(), description="How workers are placed on nodes.")
    workload: SerializeAsAny[Workload] = Field(default=TorchWorkload(), description="What runs in every worker.")
    matrix: dict[str, Annotated[list[AxisValue], Field(min_length=1, max_length=1000)]] = Field(
        default={}, max_length=16
    )
    """Further axes: a field of the workload and its values; every combination is measured."""
    exclude: list[dict[str, AxisValue]] = Field(default=[], max_length=1000)
    """Combinations to drop; all values of a rule must match."""
    measure: Repeated = Field(default=Repeated(), description="How long and how often each point is timed.")
    cost: Cost | None = Field(default=None, description="Price of a worker, for the cost of each point.")
    report: ReportOptions = Field(default=ReportOptions(), description="How the report is drawn.")
    runner: RunnerOrAuto = None
    """Kind of Kubernetes job that carries a trial; auto, the default, takes the best that the cluster has."""
    training_runtime: TrainingRuntime | None = None
    """Runtime of runner TrainJob, which auto then takes; ClusterTrainingRuntime torch-distributed if unset."""
    resources: Resources = Field(default=Resources(), description="Resource limits of one worker.")
    expect: Expected = Field(default=Expected(), description="What every trial must have used.")
    failure_policy: FailurePolicy = FailurePolicy()
    """What happens after a trial that did not succeed."""
    deadline_seconds: Whole = Field(default=3600, ge=1, le=31_536_000)
    """Seconds after which a trial that has not ended is Failed."""
    parallelism: Whole = Field(default=1, ge=1, le=1000, description="Trials that may run at the same time.")
    pool: Name = Field(default="default", description="On a cluster: experiments of one pool take turns.")
    queue: DnsName | None = Field(default=None, description="Kueue's local queue that admits the jobs.")
    queue_deadline_seconds: Whole | None = Field(default=None, ge=1, le=31_536_000)
    """Seconds after which a trial that its queue has not admitted is Failed; it waits for ever if unset."""
    pod: PodOptions = Field(default=PodOptions(), description="Settings of every pod.")
    results: Results | None = Field(default=None, description="Volume claim that takes complete records.")
    ttl_seconds_after_finished: Whole | None = Field(default=None, ge=0, le=315_360_000)
    """On a cluster: seconds after its end at which the experiment is deleted, with its records."""
    suspend: StrictBool = Field(default=False, description="Start no more trials until this is false again.")
    cancel: StrictBool = Field(default=False, description="Stop running trials and start no more.")

    @property
    def axes(self) -> dict[str, list[AxisValue]]:
        """The further axes: ``matrix``, and the batches of a ladder."""
        ladder = self.scaling.batch.ladder
        return self.matrix if ladder is None else {LADDER_AXIS: [*ladder.batches], **self.matrix}


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
