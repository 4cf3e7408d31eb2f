"""A digest of what every replica must agree on, taken outside any window."""

import ctypes
import hashlib
from typing import Any

from torch import Tensor, nn


def parameter_checksum(model: nn.Module) -> str:
    """Digest of names, shapes, types and bits of all parameters, by name. Collective where ranks hold shares (FSDP).

    Buffers are left out: DDP copies rank 0's before each forward pass, which then changes batch norm's running
    statistics by the rank's own batch, so they differ between healthy replicas.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
        digest.update(tensor_bytes(_whole(parameter.detach())))
    return digest.hexdigest()


def _whole(tensor: Tensor) -> Tensor:
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def tensor_bytes(tensor: Tensor) -> Any:
    """The memory of a tensor, for a digest."""
    # Without numpy a tensor has no buffer interface; its memory has.
    host = tensor.cpu().contiguous()
    size = host.numel() * host.element_size()
    return bytes((ctypes.c_char * size).from_address(host.data_ptr())) if size else b""
