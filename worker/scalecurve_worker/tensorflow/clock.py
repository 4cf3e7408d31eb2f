"""Ends of steps on GPUs; TensorFlow has no event that the host could record."""

from scalecurve_worker.steps.timing import HostClock
from scalecurve_worker.tensorflow.framework import tf

STEP_CLOCK = "host: a step ends when its call returns; windows end when the devices are idle"


class DeviceClock(HostClock):
    """The host's clock, with windows that open and close on idle devices.

    Windows are exact. Steps inside one are as the host saw them return, which may be before their last kernels end.
    """

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def close(self) -> int:
        tf.test.experimental.sync_devices()
        return super().close()
