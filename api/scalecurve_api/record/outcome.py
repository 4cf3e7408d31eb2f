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
    requested_devices: list[str] = []
    exit_codes: dict[str, int | None] = {}
    placement: dict[str, str] = Field(default={}, description="pod -> node, as the cluster says")
    log_tail: dict[str, list[str]] = {}
    timeline: list[Timeline] = []
