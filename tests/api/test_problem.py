import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.problem import (
    Description,
    Problem,
    Violation,
    expected,
    expected_once,
    forbidden,
    malformed,
    one_of,
    only_with,
    printable,
    report_unknown_placeholder,
    required,
    reserved,
    shorten,
    unknown,
    unsupported,
)

PATH = ("spec", "scaling", "workes")


def test_a_problem_is_one_line_with_all_there_is_to_know() -> None:
    problem = Problem(PATH, 3, expected("one of modes, workers", "workers"), file="a.yaml", line=7)
    assert str(problem) == (
        "a.yaml:7: spec.scaling.workes: got 3; expected one of modes, workers; did you mean 'workers'?"
    )


def test_a_problem_without_a_place() -> None:
    got = Description("two\nlines here")
    assert str(Problem((), got, expected("one"), file="a.yaml")) == "a.yaml: got two lines here; expected one"
    assert str(Problem(("a",), "two words", expected("one"))) == 'a: got "two words"; expected one'


@pytest.mark.parametrize(
    ("violation", "message"),
    [
        (expected("at least 1"), "got 0; expected at least 1"),
        (expected_once(), "got 0; expected each value once"),
        (unsupported("on device cpu", "fp32"), "got 0; not supported on device cpu; use fp32"),
        (unsupported("with 2 workers"), "got 0; not supported with 2 workers"),
        (forbidden("set by batch.ladder"), "set by batch.ladder; remove it"),
        (only_with("strategy fsdp"), "applies to strategy fsdp only; remove it"),
        (reserved("set for each process"), "got 0; reserved: set for each process; use another name"),
        (required("Worker counts"), "required: Worker counts"),
        (required(""), "required"),
        (unknown("field", "clases", ["classes", "source"]), "unknown field 'clases'; did you mean 'classes'?"),
        (unknown("field", "x", ["classes", "source"]), "unknown field 'x'; expected one of classes, source"),
        (
            report_unknown_placeholder("clases", ["classes"]),
            "unknown placeholder {clases}; expected one of {classes}; {{clases}} stands for {clases} itself; "
            "did you mean '{classes}'?",
        ),
        (malformed("malformed YAML"), "malformed YAML"),
    ],
)
def test_each_kind_of_violation_reads_the_same_everywhere(violation: Violation, message: str) -> None:
    assert Problem((), 0, violation).message == message


def test_alternatives() -> None:
    assert [one_of([1]), one_of(["a", "b"]), one_of("abc")] == ["1", "a or b", "a, b or c"]


@settings(max_examples=50)
@given(st.text(st.characters()), st.text(st.characters()), st.recursive(st.text() | st.floats() | st.none(), st.lists))
def test_a_problem_can_always_be_printed(file: str, field: str, value: object) -> None:
    line = str(Problem((field,), value, expected(field), file=file, line=1))
    assert line.encode()
    assert len(line.splitlines()) == 1
    assert line.isprintable()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("word", '"word"'),
        ("two words", '"two words"'),
        (Description("two words"), "two words"),
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
