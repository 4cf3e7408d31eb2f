"""What was observed of one rank to show that it was part of one training job."""

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text


class CommunicationSeen(Model):
    """What one rank exchanged with others in the observed steps, which lie outside of the timed windows."""

    calls: Int64 = Field(description="collectives and messages")
    bytes: Int64 = Field(description="what they were handed, with one worker's share counted once")
    steps: Int64
    kinds: list[Text] = []
    method: Text = Field(description="how it was observed")
    timed_calls: Int64 | None = Field(
        default=None, description="collectives in the timed windows, by the count that the library keeps"
    )
    least_calls: Int64 | None = Field(
        default=None,
        description="fewest collectives of an observed step, by the same count, where each step is an update",
    )
    least_bytes: Int64 | None = Field(
        default=None, description="what the gradients of these steps' updates take at the least, as they are exchanged"
    )
    period: Int64 | None = Field(
        default=None, description="steps from one exchange to the next, where that is always the same and not one"
    )
    silent_steps: Int64 | None = Field(default=None, description="most steps in a row without any collective")


class DataSeen(Model):
    """Samples that one rank read in the observed steps, as one digest of them."""

    digest: Text
    samples: Int64
    declared_same: bool = Field(default=False, description="the experiment has workload.sameData: true")
    method: Text


class TrainingSeen(Model):
    """Digests of the parameters at ``attach()`` and ``finish()``, and whether gradients were seen between them."""

    initial: Text | None = None
    final: Text | None = None
    gradient_norm_nonzero: bool | None = Field(default=None, description="None where no optimizer step was observed")
    steps: Int64 = 0
    met: Text | None = Field(
        default=None, description="of the parameters after the latest exchange, where not every step has one"
    )
    method: Text


class Proof(Model):
    """What shows that this rank was part of one training job; None is what could not be observed."""

    communication: CommunicationSeen | None = None
    data: DataSeen | None = None
    training: TrainingSeen | None = None
