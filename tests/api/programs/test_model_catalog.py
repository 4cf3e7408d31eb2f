"""The one list of models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scalecurve_api.programs.model_catalog import MODELS, ModelEntry, models_of
from tests.api.example_experiments import problems

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", MODELS.built_in)
def test_an_entry_names_functions_that_are_there(name: str) -> None:
    entry = MODELS.get(name)
    for target in (entry.torch, entry.tensorflow):
        module, _, function = target.partition(":")
        if target:
            file = ROOT / "worker" / Path(*module.split(".")).with_suffix(".py")
            defined = rf"^(def {function}\(|(\w+, )*{function}(, \w+)* = )"
            assert re.search(defined, file.read_text(), re.MULTILINE)
    if entry.network:
        assert (ROOT / "analysis/scalecurve_models/networks/shipped" / f"{entry.network}.yaml").exists()


def test_aliases_and_frameworks() -> None:
    assert MODELS.get("resnet20") is MODELS.get("resnet20_cifar")
    assert "resnet20" in models_of("tensorflow")
    assert "gpt2_tiny" not in models_of("tensorflow")
    assert "gpt2_tiny" in models_of("torch")


def test_what_a_program_has_no_builder_for_is_refused() -> None:
    (problem,) = problems({"workload": {"program": "tensorflow", "model": "gpt2_tiny", "strategy": "mirrored"}})
    assert problem.field == "spec.workload.model"
    assert "program tensorflow" in problem.message


def test_parameters_are_counts() -> None:
    entries: list[ModelEntry] = [MODELS.get(name) for name in MODELS.built_in]
    assert all(entry.parameters > 0 and entry.classes > 1 for entry in entries)
