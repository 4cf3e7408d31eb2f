"""Tables in a terminal: no line is wider than it, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from scalecurve.render.table import Column, Table, display_width
from scalecurve.render.terminal import fitted, paragraph
from scalecurve.statistics.estimate import Estimate, Method

EVIDENCE = (
    "the first 25 timed steps are 8.0 % slower than the rest, after 30 warm-up steps; this inflates the mean step"
)
TABLE = Table(
    "diagnosis",
    "Diagnosis",
    (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("rate", "Throughput", "number", "samples/s", interval=True),
        Column("evidence", "Evidence"),
    ),
    (
        ("weak", 2, Estimate(9241.2, 9222.0, 9260.0, 0.95, Method.SESSIONS, 3), EVIDENCE),
        ("strong", 1024, None, "short"),
    ),
    ("Analyzed 11,092 step rows of 36 trials, and said so in a note that is longer than a narrow terminal is wide.",),
)
words = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=10)
sentences = st.lists(words, min_size=1, max_size=25).map(" ".join)


def test_a_wide_terminal_has_the_table_as_it_is() -> None:
    assert fitted(TABLE, 400) == TABLE.text()


def test_long_cells_wrap_within_their_column() -> None:
    lines = fitted(TABLE, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["Throughput"] or "Throughput" in lines[1]
    assert "9,241 (9,222–9,260)" in "\n".join(lines)
    assert all(word in " ".join(lines) for word in EVIDENCE.split())


def test_a_very_narrow_one_has_cards() -> None:
    lines = fitted(TABLE, 30).splitlines()
    assert max(map(len, lines)) <= 30
    assert "Series: weak · Workers: 2" in lines
    assert any("Workers: 1,024" in line for line in lines)
    assert not any(line.endswith(": –") for line in lines)


def test_what_all_rows_share_is_said_once_where_it_makes_room() -> None:
    columns = tuple(Column(f"c{number}", f"Column {number}") for number in range(8))
    rows = [(f"only here {row}", *["the same everywhere"] * 6, f"and here {row}") for row in range(3)]
    text = fitted(Table("t", "T", columns, tuple(rows)), 60)
    assert text.count("the same everywhere") == 6
    assert text.splitlines()[1].startswith("In all rows: Column 1: the same everywhere")
    assert "only here 2  and here 2" in text
    assert max(map(len, text.splitlines())) <= 60


def test_a_paragraph_keeps_what_is_copied_in_one_piece() -> None:
    address = "https://example.com/" + "a-long-way/" * 9
    assert paragraph(f"see {address} for more", 40) == ["see", f"  {address}", "  for more"]


@given(st.lists(st.tuples(sentences, st.integers(0, 10**9), sentences), max_size=4), st.integers(20, 200))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(rows: list[tuple[str, int, str]], width: int) -> None:
    columns = (Column("a", "A"), Column("n", "N", "count"), Column("b", "B"))
    text = fitted(Table("t", "T", columns, tuple(rows)), width)
    assert all(display_width(line) <= width for line in text.splitlines())
    for first, number, last in rows:
        assert f"{number:,}" in text
        assert all(word in text for word in (first + " " + last).split())
