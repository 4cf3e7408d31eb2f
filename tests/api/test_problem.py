import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.problem import Problem, printable, shorten

PATH = ("spec", "scaling", "workes")


def test_a_problem_is_one_line_with_all_there_is_to_know() -> None:
    problem = Problem(PATH, "an unknown field", "one of modes, workers", "workers", file="a.yaml", line=7)
    assert str(problem) == (
        "a.yaml:7: spec.scaling.workes: given an unknown field; allowed: one of modes, workers "
        "(did you mean 'workers'?)"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert str(Problem((), "two\nlines here", "one", file="a.yaml")) == "a.yaml: given two lines here; allowed: one"


@settings(max_examples=50)
@given(st.text(st.characters()), st.text(st.characters()), st.recursive(st.text() | st.floats() | st.none(), st.lists))
def test_a_problem_can_always_be_printed(file: str, field: str, given: object) -> None:
    line = str(Problem((field,), given, "something", file=file, line=1))
    assert line.encode()
    assert len(line.splitlines()) == 1
    assert line.isprintable()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("word", '"word"'),
        ("two words", "two words"),
        ([1, "a"], '[1, "a"]'),
        (None, "null"),
        (True, "true"),
        (math.nan, "NaN"),
        ("x" * 200, '"' + "x" * 116 + "..."),
        (b"bytes", "\"b'bytes'\""),
    ],
)
def test_values_are_shown_on_one_short_line(value: object, shown: str) -> None:
    assert shorten(value) == shown


def test_what_json_cannot_write_is_shown_by_its_kind() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert shorten(loop) == "(a list that cannot be shown)"
    assert shorten(10**5000) == "(a int that cannot be shown)"


def test_what_moves_a_cursor_is_spelled_out() -> None:
    assert printable("red \x1b[31m\ud800\u202e ü") == "red \\x1b[31m\\ud800\\u202e ü"
