"""What a custom program is observed at, outside of the timed windows, to show that it was one training job."""

import ctypes
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from scalecurve_api.record.proof import DataSeen, Proof, TrainingSeen


class Observer:
    """Of any program: the batches that ``bench.steps`` gives out, and digests of parameters where it is handed them.

    ``begin`` and ``end`` enclose a block of observed steps; those before the warm-up and those after the last window
    each begin ``anew``.
    """

    def __init__(self, initial_checksum: str | None = None) -> None:
        self._initial = initial_checksum
        self._observing = False
        self._data = SampleDigest("batches of bench.steps")

    @property
    def complete(self) -> bool:
        """Whether further steps would show nothing more."""
        return True

    def model(self, model: Any) -> None:
        """Accept the model that is trained, where ``attach`` was called without it."""

    def begin(self, steps: int, anew: bool) -> None:
        """Observe the next steps."""
        self._observing = True

    def end(self) -> None:
        self._observing = False

    def window_opens(self) -> None:
        """Handle a train window that opens: only what costs no time in it is observed."""

    def window_closed(self) -> None:
        """Handle a train window that has closed."""

    def batch(self, batch: object) -> None:
        """Observe a batch that the program is about to train on."""
        if self._observing:
            self._data.add(batch)

    def proof(self, final_checksum: str | None, declared_same: bool) -> Proof:
        """Return what was observed, at the end."""
        training = None
        if self._initial is not None:
            training = TrainingSeen(initial=self._initial, final=final_checksum, method="the program's checksums")
        return Proof(data=self._data.seen(declared_same), training=training)


class SampleDigest:
    """A digest of the arrays and plain values in batches; of a large array, of elements at equal distances."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._digest = hashlib.blake2b(digest_size=16)
        self.samples = 0

    def add(self, batch: object) -> None:
        sizes = [self._take(value) for value in _leaves(batch)]
        self.samples += next((size for size in sizes if size), 0)

    def seen(self, declared_same: bool) -> DataSeen | None:
        if not self.samples:
            return None
        return DataSeen(
            digest=self._digest.hexdigest(), samples=self.samples, declared_same=declared_same, method=self._method
        )

    def _take(self, value: object) -> int:
        """The samples of a leaf of a batch: the first dimension of an array, 1 of a plain value."""
        if isinstance(value, str | bytes | int | float):
            self._digest.update(repr(value).encode())
            return 1
        content = content_of(value)
        if content is None:
            return 0
        self._digest.update(content)
        shape = tuple(getattr(value, "shape", ()) or (1,))
        return int(shape[0])


MOST_ELEMENTS = 1 << 20


def content_of(value: object) -> bytes | None:
    """Return the content of an array or tensor as bytes; None for anything else."""
    if not hasattr(value, "reshape"):
        return None
    try:
        flat: Any = value.reshape(-1)
        flat = flat[:: max(1, len(flat) // MOST_ELEMENTS)]
        if hasattr(flat, "detach"):
            return tensor_bytes(flat.detach())
        return bytes(flat.tobytes())
    except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
        return None


def tensor_bytes(tensor: Any) -> bytes:
    """Return the memory of a torch tensor as bytes, for a digest."""
    # Without numpy a tensor has no buffer interface; its memory has.
    host = tensor.cpu().contiguous()
    size = host.numel() * host.element_size()
    return bytes((ctypes.c_char * size).from_address(host.data_ptr())) if size else b""


def _leaves(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value
