from __future__ import annotations

import pytest

from scalecurve_worker.sdk.losses import Losses
from scalecurve_worker.steps.timing import UnixTime


def test_losses_by_step() -> None:
    losses = Losses()
    losses.keep(0, 1.5)
    losses.keep(2, 0.5)
    assert losses.take(0, 3, settled=False, training=True)[::2] == [1.5, 0.5]
    assert losses.finite is True
    losses.keep(3, float("inf"))
    losses.take(3, 1, settled=True, training=True)
    losses.keep(4, 1.0)
    losses.take(4, 1, settled=True, training=True)
    assert losses.finite is False
    assert losses.last == 1.0


def test_steps_that_are_undone_are_not_judged() -> None:
    losses = Losses()
    losses.keep(0, float("nan"))
    losses.take(0, 1, settled=True, training=False)
    assert (losses.finite, losses.last) == (None, None)


class DeviceScalar:
    """A scalar that must not be read before the window closes, as on a GPU."""

    is_cuda = True

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        raise AssertionError("read inside a window")

    def detach(self) -> DeviceScalar:
        return self


def test_a_device_loss_is_not_read_inside_a_window() -> None:
    losses = Losses()
    losses.keep(0, DeviceScalar(1.0))
    assert losses.take(0, 1, settled=False, training=True) != [1.0]
    assert losses.finite is None


@pytest.mark.gpu
def test_device_losses_and_events() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and torch sees none here")
    from scalecurve_worker.torch.clock import CudaClock

    losses = Losses()
    for step in range(5000):
        losses.keep(step, torch.tensor(float(step), device="cuda"))
    losses.take(0, 4990, settled=False, training=True)
    assert losses.take(4990, 10, settled=True, training=True) == [float(step) for step in range(4990, 5000)]
    assert losses.finite is True
    clock = CudaClock(UnixTime(), torch.device("cuda", 0))
    clock.synchronize()
    clock.open()
    for _ in range(10):
        torch.cuda._sleep(1_000_000)
        clock.mark()
    wall = clock.close()
    spans = clock.finished()
    assert len(spans) == 10
    assert 0 <= wall - sum(span.duration_ns for span in spans) < 5_000_000
