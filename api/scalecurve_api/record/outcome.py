"""How a trial's processes ended, as observed by its engine."""

from pydantic import Field

from scalecurve_api.model import Model
from scalecurve_api.record.trial_record import Timeline
from scalecurve_api.spec.trial import FailedReason


class Outcome(Model):
    """What the engine observed.

    ``failure`` is None when every process ended with 0. ``requested_devices`` is what each rank was given (a GPU UUID,
    or ``cpu:0,1``), to be compared with what the rank says it used; empty where the engine cannot know.
    """

    engine: str
    engine_version: str | None = Field(default=None, description="the operator's, whose workers may have another")
    attempt: int = 1
    failure: FailedReason | None = None
    message: str = ""
    cancelled: bool = False
    oversubscribed: bool = False
    paired: str | None = None
    requested_devices: list[str] = []
    exit_codes: dict[str, int | None] = {}
    placement: dict[str, str] = Field(default={}, description="pod -> node, as the cluster reports")
    restarts: int = Field(default=0, description="how often something else started a pod or container again")
    missing: str | None = Field(default=None, description="why ranks left no record, where that is known")
    unreadable: str | None = Field(default=None, description="why what the ranks left cannot be used")
    ledger: str | None = Field(default=None, description="digest of the attempt's first entry in the ledger")
    log_tail: dict[str, list[str]] = {}
    timeline: list[Timeline] = []
