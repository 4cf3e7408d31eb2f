"""Tables of Markdown pages: what stands above them, cells by column, and pages of a repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_corpus.schema import NOT_STATED, CorpusError
from tests.tools.corpus.published_pages import written
from tests.tools.corpus.synthetic_round import write_bare
from tools.corpus.published_page import PublishedPage, number_in, page_tables, published_pages

CELLS = st.text("abc 12.,()/#", min_size=1, max_size=8).map(str.strip).filter(bool)
ABOUT = ("docs", "name", "A title", "https://example.org")


@given(st.lists(CELLS, min_size=1, max_size=4, unique=True), st.data())
def test_every_cell_is_found_under_its_column(columns: list[str], data: st.DataObject):
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), min_size=1, max_size=4))
    lines = ["# Head", "prose", "", *(f"| {' | '.join(each)} |" for each in (columns, ["---"] * len(columns), *rows))]
    (table,) = page_tables(PublishedPage("a.md", "\n".join(lines)))
    assert (table.heading, table.caption) == ("Head", "prose")
    assert [list(row.values()) for _, row in table.rows] == rows
    assert [number for number, _ in table.rows] == list(range(6, 6 + len(rows)))


def test_a_row_of_another_width_is_not_in_the_table():
    (table,) = page_tables(PublishedPage("a.md", "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 |\n"))
    assert [dict(row) for _, row in table.rows] == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(("text", "number"), [("5,762", 5762), ("8.5 GiB", 8.5), ("FSDP", None), ("", None)])
def test_a_number_is_read_without_its_commas(text: str, number: float | None):
    assert number_in(text) == number


def test_a_repository_has_pages_and_a_license(tmp_path: Path):
    pages = {
        "LICENSE": b"Apache License",
        "docs/b.md": b"other",
        "docs/a.md": b"text",
        "docs/deeper/c.md": b"not in it",
    }
    source, found = published_pages(write_bare(tmp_path / "bare", pages), *ABOUT)
    assert [(page.name, page.text) for page in found] == [("a.md", "text"), ("b.md", "other")]
    assert source.license == "Apache-2.0"
    assert "commit" in source.retrieved


def test_a_page_alone_states_no_license(tmp_path: Path):
    source, (page,) = published_pages(written(tmp_path / "a.md", "text"), *ABOUT)
    assert (source.license, source.retrieved, page.name) == (NOT_STATED, NOT_STATED, "a.md")


def test_a_repository_without_such_a_page_is_refused(tmp_path: Path):
    with pytest.raises(CorpusError, match="docs"):
        published_pages(write_bare(tmp_path / "bare", {"a.md": b"text"}), *ABOUT)
