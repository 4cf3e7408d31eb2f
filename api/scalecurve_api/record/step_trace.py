"""What ran in a few untimed steps of a rank, by torch's profiler: the device's time, its kernels, its collectives."""

from typing import Literal

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text


class KernelTime(Model):
    """Kernels of one class, as ``convolution``: their own time, without what runs inside of them."""

    name: Text
    calls: Int64
    ns: Int64


class CollectiveTime(Model):
    """Calls of one collective: what they were handed, and the time from their start to their end.

    ``waited_ns`` of ``ns`` this rank waited for the one that came last, and to ``last`` of the calls it came last
    itself; None where the ranks' calls could not be matched.
    """

    name: Text
    calls: Int64
    bytes: Int64
    ns: Int64
    waited_ns: Int64 | None = None
    last: Int64 | None = None


class StepTrace(Model):
    """Of ``steps`` steps after the last timed window.

    ``computing_ns``, ``copy_ns``, ``exposed_ns`` and ``idle_ns`` add up to ``wall_ns``: a moment in which several
    things run counts for the first of them. On a CPU, computing is any operation of torch, on any thread.
    """

    steps: Int64
    wall_ns: Int64 = Field(description="of those steps")
    device: Literal["cpu", "cuda"]
    computing_ns: Int64 = Field(description="with a kernel running")
    copy_ns: Int64 = Field(description="in which only memory was copied, on a GPU")
    exposed_ns: Int64 = Field(description="in which only communication ran")
    idle_ns: Int64 = Field(description="in which nothing ran")
    communication_ns: Int64 = Field(description="with a collective running, beside computing or not")
    kernels: list[KernelTime] = []
    collectives: list[CollectiveTime] = []
    kept: bool = Field(default=False, description="the trace itself is among the logs")
