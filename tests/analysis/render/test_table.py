import csv
import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.render import formatting as spelling
from scalecurve.render.table import PENDING, Column, Table, interval_ends, markdown_note, markdown_text
from scalecurve.statistics.estimate import Estimate, Method, RefusedNumber

ESTIMATE = Estimate(1.8234567, 1.7512345, 1.8956789, 0.95, Method.WELCH, 3)
TABLE = Table(
    "example",
    "An example",
    (
        Column("name", "Name"),
        Column("workers", "Workers", "count"),
        Column("speedup", "Speed-up", "number", interval=True),
        Column("efficiency", "Efficiency", "percent", interval=True),
        Column("good", "Good", "flag"),
    ),
    (
        ("weak", 1024, ESTIMATE, ESTIMATE.scaled(0.5), True),
        ("a|b\n<i>", 2, None, PENDING, False),
    ),
    ("a note",),
)


def test_text_is_aligned_and_marks_what_is_missing_and_pending():
    assert TABLE.text() == (
        "An example\n"
        "Name     Workers          Speed-up          Efficiency  Good\n"
        "-------  -------  ----------------  ------------------  ----\n"
        "weak       1,024  1.82 (1.75–1.90)  91.2 % (87.6–94.8)  yes\n"
        "a|b <i>        2                 –                   ?  no\n"
        "note: a note\n"
    )


@pytest.mark.parametrize(
    "text", ["=HYPERLINK(A1)", "+1", "-1+1", "@SUM(A1)", "\t=1", " =1", "\x1b=1", "\r\n@x", "\ufeff=1"]
)
def test_no_text_of_a_csv_is_a_formula(text: str):
    table = Table(
        "t", "T", (Column("what", "What"), Column("n", "N", "number"), Column("m", "M", "count")), ((text, -1.5, -2),)
    )
    (_, (what, number, count)) = csv.reader(io.StringIO(table.csv()))
    assert what[0] == "'"
    assert what[1] in "=+-@"
    assert (number, count) == ("-1.5", "-2")
    assert next(iter(json.loads(table.json())["rows"]))["what"][0] != "'", "JSON is no spreadsheet"


def test_the_ends_of_an_interval_that_says_nothing_are_not_known():
    columns = (Column("low", "95 % low", "number"), Column("high", "95 % high", "number"))
    table = Table("t", "T", columns, (interval_ends(0.099, 52_520_826.0), interval_ends(1.0, 2.0), (None, 3.0)))
    assert table.spelled() == [["not known", "not known"], ["1", "2"], ["–", "3"]]
    assert table.plain()["rows"][0] == {"low": "not known", "high": "not known"}
    assert table.frame()["low"].isna().tolist() == [True, False, True]
    assert interval_ends(0.0, math.inf) == interval_ends(1.0, 2.01)


def test_what_is_not_known_says_why():
    of_two, of_three, of_sessions = (
        Estimate.not_known(0.82, 0.95, repetitions, sessions) for repetitions, sessions in ((2, 1), (3, 1), (9, 3))
    )
    assert spelling.interval(of_two, as_percent=True) == "82.0 % (not known: 2 repetitions)"
    assert spelling.interval(of_three) == "0.8200 (not known: 3 repetitions differ too much)"
    assert of_sessions.reason == "3 sessions differ too much"


def test_what_is_not_known_is_null_with_a_reason():
    unknown = Estimate.not_known(2277.0, 0.95, 2)
    table = Table("t", "T", (Column("rate", "Rate", "number", interval=True),), ((unknown,), (ESTIMATE,)))
    assert table.spelled()[0] == ["2,277 (not known: 2 repetitions)"]
    first, second = (row["rate"] for row in table.plain()["rows"])
    assert (first["low"], first["high"]) == (None, None)
    assert first["reason"] == "2 repetitions"
    assert "reason" not in second
    assert table.csv().splitlines()[1] == "2277.0,not known,not known"


def test_no_title_or_heading_moves_a_cursor():
    hostile = "a\x1b]0;x\x07\x9b2J\u202eb"
    table = Table("t", hostile, (Column(hostile, hostile, unit=hostile),), ((hostile,),), (hostile,))
    for text in (table.text(), table.markdown(), table.csv()):
        assert all(line.isprintable() for line in text.splitlines()), repr(text)


@pytest.mark.parametrize("text", ["weak", "1 = 1", "a-b", "'quoted'", ""])
def test_other_text_of_a_csv_is_as_it_is(text: str):
    (_, (what,)) = csv.reader(io.StringIO(Table("t", "T", (Column("what", "What"),), ((text,),)).csv()))
    assert what == text


def test_csv_expands_intervals_to_three_columns():
    assert TABLE.csv() == (
        "name,workers,speedup,speedup_low,speedup_high,efficiency,efficiency_low,efficiency_high,good\n"
        "weak,1024,1.82346,1.75123,1.89568,0.911728,0.875617,0.947839,true\n"
        "a|b <i>,2,,,,?,,,false\n"
    )


def test_markdown_cells_cannot_break_out():
    assert "| a\\|b &lt;i&gt; | 2 | – | ? | no |" in TABLE.markdown()


def test_json_keeps_method_and_level():
    row = json.loads(TABLE.json())["rows"][0]
    assert row["speedup"] == {
        "value": 1.8234567,
        "low": 1.7512345,
        "high": 1.8956789,
        "level": 0.95,
        "method": "Welch t on repetition means",
        "repetitions": 3,
        "sessions": 1,
    }


def test_frame_keeps_every_digit():
    frame = TABLE.frame()
    assert list(frame.columns)[:5] == ["name", "workers", "speedup", "speedup_low", "speedup_high"]
    assert frame["speedup"][0] == ESTIMATE.value
    assert math.isnan(frame["efficiency"][1])


@given(st.text())
def test_any_text_gives_one_row(text: str):
    table = Table("t", "t", (Column("a", "A"),), ((text,),))
    assert len(table.csv().splitlines()) == 2
    assert len(table.text().splitlines()) == 4
    assert "\n" not in markdown_text(text)
    table.json().encode()


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(min_value=0, max_value=1e6))
def test_any_number_can_be_spelled(value: float, half: float):
    assert spelling.number(value)
    if math.isfinite(value) and abs(value) < 1e300:
        assert spelling.interval(Estimate(value, value - half, value + half, 0.95, Method.WELCH, 3))


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.678, "12,346"), (0.012345, "0.01235"), (1, "1"), (-0.0001, "-0.0001000"), (0.0, "0"), (2.5, "2.500")],
)
def test_numbers(value: float, text: str):
    assert spelling.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(3e-5, "30 µs"), (0.0123, "12.3 ms"), (90, "90 s"), (7300, "2.03 h")])
def test_seconds(value: float, text: str):
    assert spelling.seconds(value) == text


def test_an_interval_around_zero_never_shows_minus_zero():
    assert spelling.interval(Estimate(0.0, -0.004, 0.004, 0.95, Method.PAIRED, 3)) == "0.000 (-0.004 to 0.004)"


def test_a_command_in_a_note_stays_code() -> None:
    assert markdown_note("With `scalecurve run --add-points`.") == "With `scalecurve run --add-points`."
    assert markdown_note("a*b `<b>` `c|d`") == r"a\*b \`&lt;b&gt;\` \`c\|d\`"


def test_a_refused_number_is_nowhere_and_its_reason_everywhere() -> None:
    refused = RefusedNumber("2 workers: the two contradict each other")
    columns = (Column("workers", "Workers", "count"), Column("share", "Share", "percent", interval=True))
    table = Table("t", "T", columns, ((2, refused), (4, refused)))
    reason = f"refused: {refused.reason}"
    assert table.notes == (reason,)
    assert table.text().count(reason) == table.markdown().count(reason) == 1
    assert [row[1] for row in table.spelled()] == ["refused", "refused"]
    assert table.csv().splitlines()[1] == "2,refused,,"
    assert table.plain()["rows"][0]["share"] == {"value": None, "reason": refused.reason}
    assert table.frame()["share"].isna().all()
