"""State dicts without torch: what torch wrote comes back, and nothing of a file is run."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve_worker.training.state_files import StateError, read_state, write_safetensors

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", TYPES)
def test_what_torch_saved_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    base = (torch.arange(24) - 7).to(dtype).reshape(4, 6)
    state = OrderedDict({"a": base, "view": base[1:3, ::2], "turned": base.T, "one": base[0, 0], "none": base[:0]})
    file = tmp_path / "state.pt"
    torch.save(state, file)
    read = read_state(file)
    assert list(read) == list(state)
    for name, tensor in state.items():
        np.testing.assert_array_equal(read[name], (tensor.float() if dtype is torch.bfloat16 else tensor).numpy())


def test_a_modules_state_comes_back(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    torch.save(module.state_dict(), tmp_path / "module.pth")
    read = read_state(tmp_path / "module.pth")
    assert read.keys() == module.state_dict().keys()
    np.testing.assert_array_equal(read["0.weight"], module[0].weight.detach().numpy())


def test_safetensors_go_round(tmp_path: Path) -> None:
    state = {
        "weight": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "count": np.array(7),
        "half": np.ones((2, 0, 3), np.float16),
    }
    write_safetensors(tmp_path / "a.safetensors", state)
    read = read_state(tmp_path / "a.safetensors")
    assert read.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(read[name], array)
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape)


def test_safetensors_of_others_are_read(tmp_path: Path) -> None:
    """By the format's description: metadata, bf16, in any order."""
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [4, 8]},
        "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
    }
    text = json.dumps(header).encode()
    halves = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.int16).numpy().tobytes()
    content = len(text).to_bytes(8, "little") + text + np.float32(3).tobytes() + halves
    (tmp_path / "theirs.safetensors").write_bytes(content)
    read = read_state(tmp_path / "theirs.safetensors")
    assert (read["a"], read["b"].tolist()) == (3, [1.5, -2.0])


def header_of(entry: dict[str, Any]) -> bytes:
    text = json.dumps({"a": entry}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no safetensors file: its header would have 0 bytes"),
        (b"\xff" * 16, "no safetensors file: its header would have"),
        ((2).to_bytes(8, "little") + b"{x", "its header is not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "its header is no object"),
        (header_of({"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}), "a: its bytes are beyond the end"),
        (header_of({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}), r"a: 2 elements for shape \[3\]"),
        (header_of({"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]}), r"a: shape \[-2, -1\]"),
        (header_of({"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}), "a: type F8_E4M3: expected one of"),
        (header_of({"dtype": "F32", "shape": [2]}), "a: expected dtype, shape and data_offsets"),
        (header_of({"dtype": "F32", "shape": [1], "data_offsets": [0, 5]}), "a: 5 bytes of F32"),
    ],
)
def test_damaged_safetensors_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "a.safetensors"
    file.write_bytes(content)
    with pytest.raises(StateError, match=message):
        read_state(file)


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_nothing_in_a_pickle_is_called(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2), "b": Malicious(tmp_path / "made")}, tmp_path / "bad.pt")
    with pytest.raises(StateError, match=r"it names posix.mkdir, which a state dict does not"):
        read_state(tmp_path / "bad.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1, 2], "not a state dict"),
        ({"epoch": 3}, "not a state dict"),
        ({}, "not a state dict"),
    ],
)
def test_what_is_no_state_dict_is_named(tmp_path: Path, state: Any, message: str) -> None:
    torch.save(state, tmp_path / "other.pt")
    with pytest.raises(StateError, match=message):
        read_state(tmp_path / "other.pt")


def test_torchs_old_format_is_named(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    with pytest.raises(StateError, match=r"no file of torch.save since torch 1.6, which is a zip file"):
        read_state(tmp_path / "old.pth")


def test_a_tensor_beyond_its_storage_is_named(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(4)}, tmp_path / "good.pt")
    with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            bad.writestr(name, content[:8] if name.endswith("data/0") else content)
    with pytest.raises(StateError, match=r"a tensor of shape \[4\] is beyond the end of its 2 elements"):
        read_state(tmp_path / "bad.pt")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1), replaced=st.binary(min_size=1, max_size=6))
def test_a_damaged_file_is_an_error_or_a_state(tmp_path: Path, position: float, replaced: bytes) -> None:
    """Never another exception, never a hang."""
    file = tmp_path / "state.pt"
    torch.save({"a": torch.arange(6.0), "b": torch.zeros(2, 3)}, file)
    content = bytearray(file.read_bytes())
    at = int(position * (len(content) - 1))
    content[at : at + len(replaced)] = replaced
    file.write_bytes(content)
    try:
        state = read_state(file)
    except StateError:
        return
    assert all(isinstance(array, np.ndarray) for array in state.values())


def test_a_pickle_that_is_no_zip_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(StateError, match="zip file"):
        read_state(tmp_path / "plain.pt")
