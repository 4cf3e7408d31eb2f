"""What validation prints for every wrong experiment of the tests: recorded once, so that no test pins a sentence.

`make fix` writes `wording.txt`; a change of a message is read there as a diff. Tests assert field, value and code.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalecurve_api.problem import Problem
from scalecurve_api.validation.document import read_documents
from scalecurve_api.validation.rules import check
from tests.api import features
from tests.api.example_experiments import experiment, problems
from tests.api.programs import test_tensorflow, test_torch
from tests.api.spec import test_secrets
from tests.api.validation import test_document, test_overlay, test_pod_template, test_rules, test_validate

PATH = Path(__file__).with_name("wording.txt")
FEATURES = [
    importlib.import_module(f"{features.__name__}.{found.name}") for found in pkgutil.iter_modules(features.__path__)
]
CHANGES = (
    test_rules.test_a_broken_rule,
    test_validate.test_a_wrong_field,
    test_torch.test_options_that_go_with_something_else_are_refused,
    test_tensorflow.test_what_the_program_would_have_to_ignore_is_refused,
    test_secrets.test_what_env_from_may_not_say,
    *(feature.test_a_broken_rule for feature in FEATURES),
)
"""Tests whose rows begin with changes to an experiment."""


def text() -> str:
    """The messages, a line each, by field."""
    lines = sorted({f"{problem.code} {problem.field or '-'}: {problem.message}" for problem in _all()})
    return "".join(f"{line}\n" for line in lines)


def _all() -> Iterator[Problem]:
    for test in CHANGES:
        for changes, *_ in _rows(test):
            yield from problems(changes)
    for feature in FEATURES:
        yield from getattr(feature, "further_problems", tuple)()
    for document, *_ in _rows(test_document.test_what_is_refused):
        yield from read_documents(document, "file.yaml")[1]
    for overlay, _ in _rows(test_overlay.test_what_an_overlay_breaks_has_its_place):
        yield from test_overlay.validated(overlay).problems
    for template, _ in _rows(test_pod_template.test_what_an_attempt_needs_is_not_to_be_changed):
        yield from check(experiment({"pod": {"template": template}}))


def _rows(test: Callable[..., Any]) -> list[tuple[Any, ...]]:
    """The rows of the test's `parametrize`."""
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    rows: list[tuple[Any, ...]] = mark.args[1]
    return rows
