"""Reads state dicts from files without torch, and writes them: names to arrays.

``.safetensors`` is a JSON header and the bytes behind it (https://huggingface.co/docs/safetensors). ``.pt`` and
``.pth`` are zip files with a pickle that names tensors, and a file for each storage. A pickle can run anything: here
nothing that it names is imported or called but the few names a tensor needs, which are answered by stand-ins.
"""

import json
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.files import atomic_file

State = dict[str, NDArray[Any]]

# Both formats' names for the types of a checkpoint; bf16 is the upper half of fp32, and numpy has none.
_BF16 = "bf16"
_TYPES: dict[str, str] = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": _BF16, "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"},
    **{"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": _BF16},
    **{"LongStorage": "<i8", "IntStorage": "<i4", "CharStorage": "|i1", "ByteStorage": "|u1"},
}
_NAMES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<i4": "I32", "|i1": "I8", "|u1": "U8"}
_LARGEST_HEADER = 100 << 20
SAFETENSORS = ".safetensors"


class StateError(ValueError):
    """A file that is no state dict; the message lacks the file's name."""


def read_state(file: Path) -> State:
    """Read the names and arrays of a file; bf16 comes as fp32.

    Raises:
        OSError: the file cannot be read.
        StateError: it is neither format, or damaged.
    """
    return _read_safetensors(file) if file.suffix == SAFETENSORS else _read_zip(file)


def write_safetensors(file: Path, state: Mapping[str, NDArray[Any]]) -> None:
    """Write a file by one rename."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in state.items():
        header[name] = {
            "dtype": _NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with atomic_file(file) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for array in state.values():
            stream.write(array.tobytes())


def _read_safetensors(file: Path) -> State:
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        if not 2 <= size <= _LARGEST_HEADER:
            raise StateError(f"no safetensors file: its header would have {size} bytes")
        try:
            header = json.loads(stream.read(size))
        except ValueError as error:
            raise StateError(f"no safetensors file: its header is not JSON: {error}") from error
        content = stream.read()
    if not isinstance(header, dict):
        raise StateError("no safetensors file: its header is no object")
    header.pop("__metadata__", None)
    return {name: _entry(name, entry, content) for name, entry in header.items()}


def _entry(name: str, entry: Any, content: bytes) -> NDArray[Any]:
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(begin), int(end)]}:
            if not all(type(each) is int and each >= 0 for each in shape):
                raise StateError(f"{name}: shape {shape}")
            if not 0 <= begin <= end <= len(content):
                raise StateError(f"{name}: its bytes are beyond the end of the file")
            array = _array(name, kind, content[begin:end])
            if array.size != prod(shape):
                raise StateError(f"{name}: {array.size} elements for shape {shape}")
            return array.reshape(shape)
    raise StateError(f"{name}: expected dtype, shape and data_offsets")


def _array(name: str, kind: str, content: bytes) -> NDArray[Any]:
    if kind not in _TYPES:
        raise StateError(f"{name}: type {kind}: expected one of {', '.join(sorted(_TYPES))}")
    code = np.dtype("<u2" if _TYPES[kind] == _BF16 else _TYPES[kind])
    if len(content) % code.itemsize:
        raise StateError(f"{name}: {len(content)} bytes of {kind}")
    values = np.frombuffer(content, code)
    return (values.astype(np.uint32) << 16).view(np.float32) if _TYPES[kind] == _BF16 else values


def _read_zip(file: Path) -> State:
    with file.open("rb") as opened:  # an OSError of what follows is of a damaged zip, which points beyond its ends
        try:
            with zipfile.ZipFile(opened) as archive:
                (index,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
                with archive.open(index) as stream:
                    state = _Reader(stream, archive, index.removesuffix("data.pkl")).load()
        except zipfile.BadZipFile as error:
            raise StateError(f"no file of torch.save since torch 1.6, which is a zip file ({error})") from error
        except StateError:
            raise
        except Exception as error:  # the interpreter of a damaged pickle may run into anything
            raise StateError(str(error).partition("\n")[0] or type(error).__name__) from error
    if not isinstance(state, dict) or not state or not all(isinstance(each, np.ndarray) for each in state.values()):
        raise StateError("not a state dict, which maps names to tensors")
    return {str(name): array for name, array in state.items()}


class _Kind:
    """A storage's type by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


def _rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, *more: Any) -> NDArray[Any]:
    """``torch._utils._rebuild_tensor_v2``: a view into a storage, checked to lie inside of it."""
    sizes = [int(each) for each in size]
    strides = [int(each) for each in stride]
    if len(sizes) != len(strides) or min([int(offset), *sizes, *strides], default=0) < 0:
        raise StateError(f"a tensor of shape {sizes}, strides {strides} from {offset} on")
    if 0 in sizes:
        return np.empty(sizes, storage.dtype)
    last = int(offset) + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    if last >= len(storage):
        raise StateError(f"a tensor of shape {sizes} is beyond the end of its {len(storage)} elements")
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[int(offset) :], sizes, steps).copy()


def _rebuild_parameter(data: Any, *more: Any) -> Any:
    return data


_ANSWERS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
}


class _Reader(pickle._Unpickler):
    """The pickle interpreter in Python, with a few names and no others; see ``data/cifar.py``."""

    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}

    def __init__(self, stream: Any, archive: zipfile.ZipFile, prefix: str) -> None:
        super().__init__(stream)
        self._archive, self._prefix = archive, prefix
        self._storages: dict[str, NDArray[Any]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _TYPES:
            return _Kind(name)
        try:
            return _ANSWERS[module, name]
        except KeyError:
            raise StateError(f"it names {module}.{name}, which a state dict does not") from None

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        match pid:
            case ("storage", _Kind(name=kind), str(key), *_):
                if key not in self._storages:
                    content = self._archive.read(f"{self._prefix}data/{key}")
                    self._storages[key] = _array(f"storage {key}", kind, content)
                return self._storages[key]
        raise StateError("a storage is not understood")
