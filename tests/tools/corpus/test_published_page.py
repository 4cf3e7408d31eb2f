"""Tables of Markdown pages: what stands above them, cells by column, and files that are no such page."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.corpus import results_repository
from scalecurve.corpus.published_page import PublishedPage, number_in, page_tables, published_pages
from scalecurve.corpus.schema import NOT_STATED, CorpusError

from .published_pages import written

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


def test_a_checkout_and_a_bare_repository_have_the_same_pages_and_license(tmp_path: Path):
    checkout = tmp_path / "checkout"
    written(checkout / "LICENSE", "Apache License\nVersion 2.0")
    written(checkout / "docs/a.md", "text")
    written(checkout / "docs/deeper/b.md", "not directly in it")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(checkout))
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "a")):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(checkout), str(tmp_path / "bare")], check=True)
    sources = []
    for path in (checkout, tmp_path / "bare"):
        source, pages = published_pages(path, *ABOUT)
        assert [(page.name, page.text) for page in pages] == [("a.md", "text")]
        sources.append(source)
    assert sources[0] == sources[1]
    assert sources[0].license == "Apache-2.0"
    assert "commit" in sources[0].retrieved


def test_a_page_alone_states_no_license(tmp_path: Path):
    source, (page,) = published_pages(written(tmp_path / "a.md", "text"), *ABOUT)
    assert (source.license, source.retrieved, page.name) == (NOT_STATED, NOT_STATED, "a.md")


def test_what_is_no_page_is_refused_in_one_line(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none", tmp_path / "empty", binary):
        with pytest.raises(CorpusError) as caught:
            published_pages(path, *ABOUT)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def bare_repository(folder: Path, files: dict[bytes, bytes]) -> Path:
    for name, data in files.items():
        file = folder / "checkout" / Path(os.fsdecode(name))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(folder / "checkout"))
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "a")):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(folder / "checkout"), str(folder / "bare")], check=True)
    return folder / "bare"


@pytest.mark.parametrize("kind", ["checkout", "bare"])
def test_a_name_that_is_not_utf8_is_read_with_a_mark(kind: str, tmp_path: Path):
    bare_repository(tmp_path, {b"docs/a\xff.md": b"text", b"docs/b.md": b"other"})
    _, pages = published_pages(tmp_path / kind, *ABOUT)
    assert [page.name for page in pages] == ["a\N{REPLACEMENT CHARACTER}.md", "b.md"]


@pytest.mark.parametrize("kind", ["checkout", "bare"])
@pytest.mark.parametrize("limit", ["MOST_PAGE_BYTES", "MOST_PAGES"])
def test_pages_beyond_a_limit_are_refused_unread(
    limit: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bare_repository(tmp_path, {b"docs/a.md": b"text", b"docs/b.md": b"other", b"docs/c.txt": b"x" * 99})
    monkeypatch.setattr(results_repository, limit, {"MOST_PAGE_BYTES": 4, "MOST_PAGES": 1}[limit])
    with pytest.raises(CorpusError) as caught:
        published_pages(tmp_path / kind, *ABOUT)
    assert ("b.md" in str(caught.value)) == (limit == "MOST_PAGE_BYTES")


@pytest.mark.parametrize("kind", ["checkout", "bare"])
def test_a_license_beyond_the_limit_is_not_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bare_repository(tmp_path, {b"LICENSE": b"MIT License" * 9, b"docs/a.md": b"text"})
    monkeypatch.setattr(results_repository, "MOST_PAGE_BYTES", 50)
    source, _ = published_pages(tmp_path / kind, *ABOUT)
    assert source.license == NOT_STATED
