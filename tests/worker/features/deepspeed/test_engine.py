"""What a strategy of DeepSpeed says where DeepSpeed is missing or broken."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest
import torch
from torch import nn

from scalecurve_api.programs.workload import Workload
from scalecurve_worker.features.deepspeed.engine import engine
from scalecurve_worker.process.failure import WorkloadError

CPU = torch.device("cpu")


def test_without_deepspeed_one_line_names_the_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    workload: Any = Workload.model_validate({"strategy": "deepspeed-zero2"})
    with pytest.raises(WorkloadError) as caught:
        engine(nn.Linear(1, 1), CPU, workload)
    said = "workload.strategy: deepspeed-zero2: DeepSpeed is not installed here; `pip install deepspeed` adds it"
    assert str(caught.value) == said


def test_a_deepspeed_that_does_not_import_is_named_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise RuntimeError("built for another torch")

    workload: Any = Workload.model_validate({"strategy": "deepspeed-zero3"})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", broken)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    with pytest.raises(WorkloadError, match="does not import: RuntimeError: built for another torch"):
        engine(nn.Linear(1, 1), CPU, workload)
