"""One formatter writes percentages, so that two surfaces cannot print one share in two ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scalecurve
import scalecurve_models
from scalecurve.render import formatting

ELSEWHERE = re.compile(r"\{[^{}]*:[^{}]*%\}|\* 100:[^{}]*\} %")
"""``{share:.1%}`` or ``{share * 100:g} %`` in a source."""


def test_percentages_are_written_in_one_place() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for package in (scalecurve, scalecurve_models)
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ELSEWHERE.search(line) and path != Path(str(formatting.__file__))
    ]
    assert found == []


@pytest.mark.parametrize(("share", "text"), [(0.05, "5 %"), (0.975, "97.5 %"), (0.001, "0.1 %"), (1.0, "100 %")])
def test_a_percentage_that_was_set_keeps_its_digits(share: float, text: str) -> None:
    assert formatting.stated_percent(share) == text
