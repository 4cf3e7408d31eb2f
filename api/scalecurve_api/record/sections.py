"""Where the time of a rank's steps goes, by the host's clock: the sections of a step."""

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text

WITHOUT_COMMUNICATION = "windows without communication"
SECTIONS = ("input", "transfer", "forward", "backward", "optimizer", "communication", "server")
"""In the order of a step. What lies in none of them is the host's own work between them."""


class SectionTimes(Model):
    """Nanoseconds of the host in each section of ``steps`` steps of one rank, which follow its last timed window.

    A moment belongs to one section, the innermost. None is a section that could not be observed; what a library waits
    for inside of a pass (DDP's all-reduce) is in that pass. ``own_ns`` is what a step of this rank takes where it
    waits for no other rank, and ``own_method`` how that was found.
    """

    steps: Int64
    wall_ns: Int64 = Field(description="of those steps")
    input_ns: Int64 | None = Field(default=None, description="waiting for the next batch")
    transfer_ns: Int64 | None = Field(default=None, description="copies between host and device, as the host sees them")
    forward_ns: Int64 | None = Field(default=None, description="forward pass and loss")
    backward_ns: Int64 | None = Field(default=None, description="backward pass, and what it waits for inside")
    optimizer_ns: Int64 | None = Field(default=None, description="the optimizer's update")
    communication_ns: Int64 | None = Field(default=None, description="in calls of collectives, and waiting for them")
    apart_ns: Int64 | None = Field(default=None, description="of communication_ns, outside of the backward pass")
    server_ns: Int64 | None = Field(default=None, description="waiting for parameter servers")
    own_ns: float | None = Field(default=None, description="of one step, where it waits for no other rank")
    own_method: Text | None = None

    def seconds(self, section: str) -> float | None:
        """Seconds of one step in a section of ``SECTIONS``; None where it was not observed."""
        ns = getattr(self, f"{section}_ns")
        return None if ns is None or not self.steps else ns / self.steps / 1e9

    @property
    def step_s(self) -> float:
        """Seconds of one of these steps."""
        return self.wall_ns / self.steps / 1e9 if self.steps else 0.0

    @property
    def host_s(self) -> float:
        """Seconds of one step in no section."""
        return max(0.0, self.step_s - sum(self.seconds(each) or 0.0 for each in SECTIONS))
