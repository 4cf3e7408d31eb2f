"""The site: an index and a page for each experiment, the same bytes every time, readable without a script."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scalecurve_timelines.figure import date_ticks
from scalecurve_timelines.site import events, sentences, write_site
from scalecurve_timelines.timeline import History, history
from tests.timelines.past import write_past


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> History:
    """One experiment that became 5 % slower at two workers and more, with another torch; and one of three sessions."""
    folder = tmp_path_factory.mktemp("past")
    write_past(
        folder,
        12,
        workers=(1, 2, 4),
        repetitions=1,
        factor=lambda session, workers: 0.95 if session >= 6 and workers > 1 else 1.0,
        versions=lambda session: {"torch": "2.14.1" if session < 6 else "2.15.0"},
        machine=lambda session: f"node-{session % 2}",
        session_sd=0.002,
    )
    write_past(folder, 3, name="young", repetitions=1)
    return history([folder])


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value for name, value in attrs if name in ("href", "src") and value]


def test_changes_at_a_time_in_common_are_one_event(known: History):
    timeline = known.timelines[0]
    (event,) = events(timeline)
    assert [curve.workers for curve, _ in event.changes] == [2, 4]
    assert event.worse
    assert event.first <= 6 <= event.last
    (sentence,) = sentences(timeline)
    assert re.match(r"2 of 3 points: slower by \d.* %; began (between|on) ", sentence)
    assert sentence.endswith("coincides with torch 2.14.1 → 2.15.0")


def test_every_link_leads_to_a_file_of_the_site(known: History, tmp_path: Path):
    written = write_site(known, tmp_path)
    assert {"index.html", "nightly.html", "young.html"} <= {path.name for path in written}
    for page in tmp_path.glob("*.html"):
        text = page.read_text()
        links = Links()
        links.feed(text)
        outside = [href for href in links.hrefs if not href.startswith("#") and not (tmp_path / href).is_file()]
        assert outside == []
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    index = (tmp_path / "index.html").read_text()
    assert "2 of 3 points: slower" in index
    assert "too few to find a change" in index


def test_the_same_history_gives_the_same_bytes(known: History, tmp_path: Path):
    first, second = (write_site(known, tmp_path / name) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_name_is_no_path_and_no_tag(known: History, tmp_path: Path):
    """Names of experiments come from records, which may be anybody's."""
    hostile = "../../<script>alert(1)</script>"
    timelines = [replace(known.timelines[1], experiment=name) for name in (hostile, "index", "a b", "a-b")]
    written = write_site(replace(known, timelines=tuple(timelines)), tmp_path / "site")
    pages = [path for path in written if path.suffix == ".html"]
    assert {path.parent for path in pages} == {tmp_path / "site"}
    assert [path.name for path in pages] == [
        *("index.html", "script-alert-1-script.html", "index-2.html", "a-b.html", "a-b-2.html")
    ]
    assert all("<script>alert" not in path.read_text() for path in pages)
    assert list(tmp_path.iterdir()) == [tmp_path / "site"]


def test_dates_are_ticks_at_round_times():
    assert [label for _, label in date_ticks(20_000.2, 20_009.9, 5)] == ["10-05", "10-07", "10-09", "10-11", "10-13"]
    assert [label for _, label in date_ticks(20_000, 20_700, 5)] == ["2025-01", "2025-07", "2026-01", "2026-07"]
    assert [label for _, label in date_ticks(10_000, 14_000, 5)] == ["2000", "2005"]
    assert len(date_ticks(20_000.5, 20_000.6, 5)) == 1
