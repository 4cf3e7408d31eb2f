import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.problem import spell
from scalecurve_api.validation.document import MAX_BYTES, MAX_DEPTH, Document, read_documents


def one(text: str) -> Document:
    (document,), problems = read_documents(text, "file.yaml")
    assert not problems
    return document


def refusal(text: str) -> tuple[int | None, str, object, str]:
    """Line, field, value and code."""
    _, (problem,) = read_documents(text, "file.yaml")
    assert problem.file == "file.yaml"
    return problem.line, problem.field, problem.got, problem.code


def test_every_field_has_its_line() -> None:
    document = one("a: 1\nb:\n  - x\n  - {c: 2,\n     d: 3}\n")
    assert document.value == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    lines = {spell(path): line for path, line in document.lines.items()}
    assert lines == {"": 1, "a": 1, "b": 2, "b[0]": 3, "b[1]": 4, "b[1].c": 4, "b[1].d": 5}


def test_a_path_that_is_not_there_has_the_line_around_it() -> None:
    document = one("a: 1\nb:\n  c: 2\n")
    assert document.place(("b", "missing", 3))[1] == 2
    assert document.place(("missing",))[1] == 1


def test_paths_are_spelled_as_people_write_them() -> None:
    assert spell(("spec", "scaling", "workers", 2)) == "spec.scaling.workers[2]"
    assert spell(("spec", "matrix", "env.A")) == "spec.matrix.env.A"
    assert spell(("",)) == '""', "a field with an empty name has a name to be shown"
    assert spell(("a", "b c\n")) == 'a."b c\\n"'


def test_several_documents_and_stray_separators() -> None:
    documents, problems = read_documents("---\na: 1\n---\nb: 2\n---\n", "file.yaml")
    assert [document.value for document in documents] == [{"a": 1}, {"b": 2}]
    assert [document.place(("b",))[1] for document in documents] == [2, 4]
    assert not problems


def test_dates_and_merges_stay_text() -> None:
    assert one("a: 2026-11-20\nb: =\n<<: {c: 1}\n").value == {"a": "2026-11-20", "b": "=", "<<": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "line", "field", "got", "code"),
    [
        ("a: 1\na: 2\n", 2, "a", "a duplicate key", "Duplicate"),
        ("x:\n  b: 1\n  b: 2\n", 3, "x.b", "a duplicate key", "Duplicate"),
        ("x:\n  [1, 2]: 3\n", 2, "x", "a key that is a list or a mapping", "Invalid"),
        ("x: !!binary aGk=\n", 1, "x", "the tag !!binary", "Invalid"),
        ("x: !!timestamp soon\n", 1, "x", "the tag !!timestamp", "Invalid"),
        ("x: !!set {a, b}\n", 1, "x", "the tag !!set", "Invalid"),
        ("x: !!python/name:os []\n", 1, "x", "the tag !!python/name:os", "Invalid"),
        ("x:\n - !!bool maybe\n", 2, "x[0]", "maybe", "Invalid"),
        ("x: !!int abc\n", 1, "x", "abc", "Invalid"),
        ("x: !!float abc\n", 1, "x", "abc", "Invalid"),
        ('x: "\\ud800"\n', 1, "x", "\ud800", "Invalid"),
        ('"\\udfff": 1\n', 1, "", "\udfff", "Invalid"),
        ("a: 1\nb: c\x01d\n", 2, "", "the character U+0001", "Invalid"),
        ("a: 1\nb: *gone\n", 2, "", "found undefined alias 'gone'", "Malformed"),
        ("a: b: c\n", 1, "", "mapping values are not allowed here", "Malformed"),
        ("a: 1\n\tb: 2\n", 2, "", "while scanning for the next token found character '\\t' that cannot start any token",
         "Malformed"),
        ("a: [1, 2\n", 2, "", "while parsing a flow sequence expected ',' or ']', but got '<stream end>'", "Malformed"),
        ("%YAML 9.9\n---\na: 1\n", 1, "", "found incompatible YAML document (version 1.* is required)", "Malformed"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, line: int, field: str, got: str, code: str) -> None:
    assert refusal(text) == (line, field, got, code)


@pytest.mark.parametrize("number", ["9" * 6000, "9" * 4000, "0x" + "f" * 6000, "0b" + "1" * 60_000, "0" + "7" * 9000])
def test_numbers_that_python_would_not_print(number: str) -> None:
    # Found raising ValueError: hexadecimal digits are read without limit and printed with one.
    line, field, given, _ = refusal(f"a: 1\nx: [{number}]\n")
    assert (line, field, given) == (2, "x[0]", number)


def test_aliases_cannot_explode() -> None:
    levels = [f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(12)]
    assert refusal("a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(levels))[2] == "a larger document"


def test_an_alias_of_itself_is_refused() -> None:
    assert refusal("a: &a [1, *a]\n")[2] == "a larger document"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "!!seq ["])
def test_deep_nesting_is_refused(opening: str) -> None:
    assert refusal("x:\n  " + opening * 3000) == (2, "", "deeper nesting", "Invalid")


def test_what_is_not_too_deep_is_read() -> None:
    value = one("[" * (MAX_DEPTH - 1) + "1" + "]" * (MAX_DEPTH - 1)).value
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == 1


def test_a_long_text_is_not_even_parsed() -> None:
    assert refusal("#" * (MAX_BYTES + 1)) == (None, "", f"{MAX_BYTES + 1} characters", "Invalid")


@given(st.text(st.characters(), max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    documents, problems = read_documents(text, "file.yaml")
    assert len(problems) <= 1
    for problem in problems:
        assert str(problem).startswith("file.yaml")
        str(problem).encode()
    for document in documents:
        assert document.place(())[1] is not None


YAML_LIKE = st.lists(
    st.sampled_from(
        ["a", "1", ": ", "\n", "  ", "- ", "[", "]", "{", "}", ",", "&a ", "*a", "!!int ", "'", '"', "#", "|"]
    ),
    max_size=40,
).map("".join)


@given(YAML_LIKE)
def test_text_that_looks_like_yaml_is_read_or_refused(text: str) -> None:
    read_documents(text, "file.yaml")
