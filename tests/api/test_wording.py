"""What validation prints keeps to the glossary of CONTRIBUTING.md."""

import re

import pytest

from tests.api import wording
from tools import ROOT

LINES = wording.PATH.read_text(encoding="utf-8").splitlines()
SENSES = {"whole": "whole (?!numbers?)"}
"""Words of the glossary with a sense that is right."""


def glossary() -> list[str]:
    """The words not to use, from the rows that state them without a condition in parentheses."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| not | but |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1].strip() for row in table.splitlines()[2:]]
    words = [word for cell in cells if "(" not in cell for word in re.split(r", | / ", cell.replace(" X", ""))]
    return [*words, "left out", "goes with"]


def test_the_glossary_is_read() -> None:
    assert {"is wanted", "given", "leave out", "look at", "told apart"} <= set(glossary())


@pytest.mark.parametrize("word", glossary())
def test_no_message_has_a_word_of_the_glossary(word: str) -> None:
    pattern = re.compile(rf"\b{SENSES.get(word, word)}\b", re.IGNORECASE)
    assert [line for line in LINES if pattern.search(line)] == []
