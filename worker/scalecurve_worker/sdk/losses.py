"""Collects the losses of steps, and reads them only when that costs nothing."""

import importlib
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from scalecurve_api.record.journal import NO_LOSS

_MOST_UNREAD = 4096


class Losses:
    """Numbers, or scalars of torch or TensorFlow wherever they live.

    A device's scalar is never read while its window is open: a copy to the host would wait for all that is queued.
    Steps that are written out before the window closes then stand without a loss, but are still checked.
    """

    def __init__(self) -> None:
        self._by_step: dict[int, Any] = {}
        self._unread: list[Any] = []
        self.finite: bool | None = None
        self.last: float | None = None

    def keep(self, step: int, loss: Any) -> None:
        self._by_step[step] = loss.detach() if hasattr(loss, "detach") else loss

    def take(self, first: int, count: int, *, settled: bool, training: bool) -> list[float]:
        """Take the losses of ``count`` steps from ``first`` on, NaN where unknown; ``settled`` once the device is idle.

        Only those of ``training`` are checked: steps without communication may well diverge, and are undone.
        """
        values = [self._by_step.pop(step, None) for step in range(first, first + count)]
        if settled:
            return self._read_all(values, training)
        return [self._defer(value) if _is_on_device(value) else self._read(value, training) for value in values]

    def _defer(self, value: Any) -> float:
        self._unread.append(value)
        if len(self._unread) >= _MOST_UNREAD:
            # NaN and infinity survive a sum, so one scalar stands for all of them.
            self._unread = [_scalars(value).add(self._unread)]
        return NO_LOSS

    def _read_all(self, values: list[Any], training: bool) -> list[float]:
        on_device = [value for value in (*self._unread, *values) if _is_on_device(value)]
        several = [value for value in on_device if math.prod(value.shape) != 1]
        if several:
            raise _not_a_loss(several[0])
        read: Iterator[float] = iter(_scalars(on_device[0]).read(on_device) if on_device else ())
        for _ in self._unread:
            self._note(next(read), training)
        self._unread = []
        return [
            self._note(next(read), training) if _is_on_device(value) else self._read(value, training)
            for value in values
        ]

    def _read(self, value: Any, training: bool) -> float:
        if value is None:
            return NO_LOSS
        try:
            return self._note(float(value), training)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _not_a_loss(value) from error

    def _note(self, loss: float, training: bool) -> float:
        if training:
            self.finite = math.isfinite(loss) and self.finite is not False
            self.last = loss if math.isfinite(loss) else self.last
        return loss


def _not_a_loss(value: Any) -> TypeError:
    shape = f" of shape {tuple(value.shape)}" if getattr(value, "shape", ()) else ""
    return TypeError(
        f"bench.loss: got {type(value).__name__}{shape}, expected a number or a tensor of one element: loss.mean()"
    )


def _is_on_device(value: Any) -> bool:
    if getattr(value, "is_cuda", False):
        return True
    # TensorFlow names devices in full, as /job:localhost/replica:0/task:0/device:GPU:0.
    device = getattr(value, "device", None)
    return isinstance(device, str) and "device:GPU" in device


def _scalars(value: Any) -> ModuleType:
    framework = "torch" if hasattr(value, "is_cuda") else "tensorflow"
    return importlib.import_module(f"scalecurve_worker.{framework}.scalars")
