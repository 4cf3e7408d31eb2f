"""Names of series with many axes: short, different, and with a note that says the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scalecurve.render.labels import MOST_AXES, drop_folders, shortened
from scalecurve.render.table import Column, Table

PLAIN = "weak batch.perWorker=32 optimizer.name=sgd options.reshuffle=true"
LARS = "weak batch.perWorker=128 optimizer.name=lars options.reshuffle=true"


def test_what_differs_from_the_first_series_is_said() -> None:
    shown, note = shortened([PLAIN, LARS, PLAIN])
    assert shown == {PLAIN: "weak", LARS: "weak batch.perWorker=128 optimizer.name=lars"}
    assert (
        note
        == "Series names show only what differs from batch.perWorker=32, optimizer.name=sgd, options.reshuffle=true."
    )


def test_few_axes_one_series_and_unlike_series_are_named_whole() -> None:
    for names in (["weak a=1 b=2", "weak a=2 b=2"], [PLAIN], [], [PLAIN, "weak other=1 another=2 third=3"], ["1 node"]):
        assert shortened(names) == ({name: name for name in names}, "")


def test_an_axis_loses_its_folder_where_it_stays_clear() -> None:
    names = ["weak a.updates=x a.size=1", "weak b.size=2 optimizer.name=sgd"]
    assert list(drop_folders(names).values()) == ["weak updates=x a.size=1", "weak b.size=2 optimizer=sgd"]


def test_a_label_without_a_mode_has_a_name_too() -> None:
    assert shortened(["a=1 b=1 c=1", "a=1 b=1 c=2"])[0] == {"a=1 b=1 c=1": "plain", "a=1 b=1 c=2": "c=2"}


def test_quoted_values_stay_whole() -> None:
    first, second = 'a="x b=2" b=1 c=1', 'a="x b=3" b=1 c=1'
    assert shortened([first, second])[0] == {first: "plain", second: 'a="x b=3"'}


VALUES = st.sampled_from(["1", "2", '"a b"', '"c=1"', "x=y"])


@given(st.lists(st.tuples(st.sampled_from(["strong", "weak"]), *[VALUES] * (MOST_AXES + 2)), min_size=2, unique=True))
def test_different_names_stay_different(series: list[tuple[str, ...]]) -> None:
    names = [" ".join([mode, *(f"axis{n}={value}" for n, value in enumerate(values))]) for mode, *values in series]
    shown, note = shortened(names)
    assert list(shown) == names
    assert note
    assert len(set(shown.values())) == len(names)


def test_people_are_shown_the_short_name_and_programs_the_whole_one() -> None:
    table = Table("t", "T", (Column("series", "Series"),), ((PLAIN,), (LARS,)), ("First.",))
    assert "weak  \n" not in table.text()
    assert PLAIN not in table.text()
    assert "optimizer.name=lars\nnote: First.\nnote: Series names show only what differs" in table.text()
    assert PLAIN in table.csv()
    assert PLAIN in table.json()
