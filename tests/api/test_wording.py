"""What validation prints keeps to the glossary of CONTRIBUTING.md."""

import re

import pytest

from tests.api import wording
from tools.lint.wording import pattern


@pytest.mark.parametrize("word", ["is wanted", "given", "Leave out", "look at", "told apart"])
def test_the_glossary_is_read(word: str) -> None:
    assert pattern().search(f"a {word} b")


def test_no_message_has_a_word_of_the_glossary() -> None:
    lines = wording.PATH.read_text(encoding="utf-8").splitlines()
    refused = re.compile(rf"{pattern().pattern}|\b(left out|goes with)\b", re.IGNORECASE)
    assert [line for line in lines if refused.search(line)] == []
