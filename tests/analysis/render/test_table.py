import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.render import formatting as spelling
from scalecurve.render.table import PENDING, Column, Table, markdown_text
from scalecurve.statistics.estimate import Estimate, Method

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
        "value": 1.82346,
        "low": 1.75123,
        "high": 1.89568,
        "level": 0.95,
        "method": "Welch t on repetition means",
        "repetitions": 3,
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
