"""The page as a reader has it: on a phone, a laptop and a large screen, light, dark and printed, with and without its
script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve.reporting import report
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.html import page as page_of
from tests.analysis.packed_bundles import PACKED, name_of
from tests.analysis.reporting.browser import opened, program, started
from tests.analysis.reporting.test_report import whole
from tests.analysis.synthetic import Truth, experiment, write_bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.skipif(
        program() is None, reason="no chromium on PATH: the report is not tried in a browser (Debian: chromium)"
    ),
    pytest.mark.timeout(300),
]
Pages = Callable[[str], Path]
SIZES = [(390, 844), (1280, 800), (1920, 1080)]
QUESTIONS = ["How does it scale?", "Why does it bend?", "What does it cost?", "Can I believe it?"]
PAGES = ("every-section", "matrix", "one-worker")
_WIDER = """() => [...document.querySelectorAll("body *")].filter((e) =>
    e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll") && !e.closest("svg"))
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`)"""
_HIDDEN_SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"
_ANSWERS = """() => [...document.querySelectorAll(".answers > div")].map((answer) =>
    [answer.querySelector("h2").firstChild.textContent.trim(), answer.getBoundingClientRect().bottom])"""
_SCALES = """() => [...document.querySelectorAll("figure svg")].filter((svg) => svg.getBoundingClientRect().width)
    .map((svg) => svg.getBoundingClientRect().width / (svg.viewBox.baseVal.width * 4 / 3))"""
_CUT = """() => [...document.querySelectorAll("figure svg text")].filter((text) => {
    const box = text.getBoundingClientRect(), svg = text.closest("svg"), paper = svg.getBoundingClientRect();
    const room = getComputedStyle(svg).overflow === "visible" ? { left: 0, right: innerWidth } : paper;
    return box.width && (box.left < room.left || box.right > room.right);
  }).map((text) => text.textContent)"""
_EDGES = """() => [...document.querySelectorAll("h1, .answers > div")].map((box) => box.getBoundingClientRect())
    .map((box) => [box.left, box.right])"""
_BARS = """() => [...document.querySelectorAll(".bar")].map((bar) => [bar.getBoundingClientRect().width,
    [...bar.children].map((part) => [part.title, part.getBoundingClientRect().width])])"""
_HEIGHT = "() => document.documentElement.scrollHeight"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The report of each name, made when it is first needed."""
    folder = tmp_path_factory.mktemp("pages")
    sizes = {"repetitions": 2, "windows": 2, "steps_per_window": 15}
    cost = {"perWorkerHour": 2.5, "datasetSamples": 1_281_167, "epochs": 90}
    matrix = {"precision": ["fp32", "bf16", "fp16"], "batch.perWorker": [32, 64]}
    many = experiment("matrix", modes=["weak"], workers=[1, 2], matrix=matrix, cost=cost, **sizes)
    alone = experiment("one-worker", modes=["weak"], workers=[1], matrix={"batch.perWorker": [32, 64]}, **sizes)
    both = experiment("two-modes", workers=[1, 2, 4], cost=cost, **sizes)
    bundles: dict[str, Callable[[Path], Path]] = {
        "two-modes": lambda path: write_bundle(path, both, Truth()),
        "every-section": whole,
        "matrix": lambda path: write_bundle(path, many, Truth()),
        "one-worker": lambda path: write_bundle(path, alone, Truth()),
    }

    @cache
    def page(name: str) -> Path:
        (path,) = report(open_bundles([bundles[name](folder / name)]), folder / "out" / name, ["html"])
        return path

    return page


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_the_first_screen_answers_and_nothing_is_wider(
    browser: Browser, pages: Pages, name: str, width: int, height: int
) -> None:
    with opened(browser, pages(name), width, height) as page:
        answers = page.evaluate(_ANSWERS)
        assert all(bottom <= height for _, bottom in answers), answers
        assert page.evaluate(_HEIGHT) <= 4000
        for _ in ("folded", "unfolded"):
            assert page.evaluate(_HIDDEN_SIDEWAYS) <= 0
            assert page.evaluate(_WIDER) == []
            unfold(page)
        bars_as_long_as_their_labels(page)
        scales = page.evaluate(_SCALES)
        assert all(0.7 <= scale <= 1.01 for scale in scales), scales
    varies = ["What does batch.perWorker change?", *QUESTIONS[2:]]
    assert [title for title, _ in answers] == (varies if name == "one-worker" else QUESTIONS)


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_where_nothing_is_drawn_the_answer_takes_its_place(browser: Browser, tmp_path: Path, width: int) -> None:
    (file,) = report(open_bundles(["docs/evidence/gpu/forced-sockets.zip"]), tmp_path, ["html"])
    with opened(browser, file, width) as page:
        heading, *answers = page.evaluate(_EDGES)
        assert answers == [heading]


@pytest.mark.parametrize("packed", PACKED, ids=name_of)
def test_a_bar_is_as_long_as_its_label_says(browser: Browser, tmp_path: Path, packed: Path) -> None:
    content = compose(analyze(open_bundles([packed])), draw=False)
    file = tmp_path / "report.html"
    file.write_text(page_of(content))
    with opened(browser, file) as page:
        assert bars_as_long_as_their_labels(page) == len(content.answer.losses)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_word_at_a_figures_edge_is_not_cut(browser: Browser, tmp_path: Path, width: int) -> None:
    (file,) = report(open_bundles(["docs/evidence/gpu/llm-gpt2-small.zip"]), tmp_path, ["html"])
    with opened(browser, file, width) as page:
        unfold(page)
        assert page.evaluate(_CUT) == []


def test_points_say_their_numbers(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("every-section")) as page:
        unfold(page)
        hint = page.locator(".hint")
        assert not hint.is_visible()
        page.locator("#scale-question figure .wide .tip").first.hover(force=True)
        assert hint.inner_text().startswith("1 worker, ")
        assert "samples/s" in hint.inner_text()
        page.locator("h1").hover()
        assert not hint.is_visible()


def test_a_point_leads_to_its_trials(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("every-section")) as page:
        unfold(page)
        page.locator("#scale-question figure .wide .tip").first.click(force=True)
        link = page.locator(".hint a")
        target = link.get_attribute("href")
        link.click()
        row = page.locator(f"tr{target}")
        assert row.is_visible()
        assert row.evaluate("(row) => row.matches(':target')")
        assert "trial.json" in row.inner_text()


def test_a_curve_can_be_hidden(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("matrix")) as page:
        unfold(page)
        figure = page.locator("#scale-question figure").first
        marks = figure.locator('.wide [id*="-curve-0-"]')
        button = figure.get_by_role("button").and_(figure.locator("[aria-pressed]")).first
        displays = "(marks) => [...new Set(marks.map((mark) => getComputedStyle(mark).display))]"
        assert marks.evaluate_all(displays) == ["inline"]
        button.click()
        assert marks.evaluate_all(displays) == ["none"]
        button.click()
        assert marks.evaluate_all(displays) == ["inline"]


def test_an_axis_can_be_linear(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("every-section")) as page:
        figure = page.locator("figure.has-linear").first
        assert figure.locator(".wide").is_visible()
        figure.get_by_role("button", name="show linear axis").click()
        assert figure.locator(".linear").is_visible()
        assert not figure.locator(".wide").is_visible()
        figure.get_by_role("button", name="show log axis").click()
        assert figure.locator(".wide").is_visible()


def test_a_table_sorts_by_its_numbers(browser: Browser, pages: Pages) -> None:
    def column() -> list[float]:
        texts = [row.locator("td").nth(index).inner_text() for row in table.locator("tbody tr").all()]
        return [float(text.replace(",", "")) for text in texts if re.fullmatch(r"[\d.,]+", text)]

    with opened(browser, pages("every-section")) as page:
        unfold(page)
        table = page.locator("#trials table")
        titles = [heading.inner_text() for heading in table.locator("th").all()]
        index = next(index for index, title in enumerate(titles) if title.startswith("Throughput"))
        heading = table.locator("th").nth(index)
        heading.get_by_role("button").click()
        up = column()
        heading.get_by_role("button").click()
        assert len(set(up)) > 1
        assert up == sorted(up)
        assert column() == sorted(up, reverse=True)
        assert heading.get_attribute("aria-sort") == "descending"


def test_folds_open_by_hand_and_by_address(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("every-section")) as page:
        section = page.locator("#environment")
        assert not section.is_visible()
        page.evaluate("location.hash = 'environment'")
        section.wait_for()
        page.locator("#believe-question > summary").click()
        assert not section.is_visible()


def test_print_has_every_section(browser: Browser, pages: Pages) -> None:
    with opened(browser, pages("every-section")) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        assert not page.locator(".controls").first.is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_print_is_two_pages_and_an_appendix(browser: Browser, pages: Pages) -> None:
    first = "details.question:first-of-type section:nth-of-type(n+2), details.question:nth-of-type(n+2) {display: none}"
    with opened(browser, pages("two-modes")) as page:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        appendix = page.pdf(format="A4")
        page.add_style_tag(content=first)
        assert len(re.findall(rb"/Type /Page\b", appendix)) > 2
        assert len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) == 2
        page.emulate_media(media="print")
        colors = "() => getComputedStyle(document.querySelector('.terms i')).printColorAdjust"
        assert page.evaluate(colors) == "exact"


def test_without_its_script_the_page_says_the_same(browser: Browser, pages: Pages) -> None:
    words = "main h2, main h3, main h4, main p, main li, main td, main th, main figcaption"
    with opened(browser, pages("every-section"), scripts=False) as page:
        assert page.get_by_role("button").count() == 0
        assert page.locator(".tip > title").count() > 0
        plain = page.locator(words).all_text_contents()
        page.locator("#believe-question > summary").click()
        assert page.locator("#environment").is_visible()
    with opened(browser, pages("every-section")) as page:
        assert page.locator(words).all_text_contents() == plain
    assert any("Throttled" in text for text in plain)


_CONTRAST = """() => {
  const channel = (value) => { const c = value / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const paper = (element) => {
    for (let behind = element; behind; behind = behind.parentElement) {
      const color = getComputedStyle(behind).backgroundColor;
      if (!/, 0\\)$/.test(color)) return luminance(color);
    }
    return 1;
  };
  const texts = [...document.querySelectorAll("main *, header *, footer *")].filter((e) =>
    !e.closest("svg") && !e.matches(".mark") && e.getBoundingClientRect().width &&
    [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  const low = {};
  for (const e of texts) {
    const [ink, behind] = [luminance(getComputedStyle(e).color), paper(e)];
    const contrast = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    if (contrast < 4.5) low[`${e.tagName}.${e.className}`] = contrast;
  }
  return [texts.length, low];
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_the_paper(browser: Browser, pages: Pages, dark: bool) -> None:
    """4.5 to 1, as WCAG 2.2 asks of text (1.4.3)."""
    with opened(browser, pages("every-section"), dark=dark) as page:
        unfold(page)
        texts, low = page.evaluate(_CONTRAST)
    assert texts > 100
    assert low == {}


def bars_as_long_as_their_labels(page: Page) -> int:
    """Hold every part of every bar to the share that its label says, within a point; returns the number of bars."""
    bars = page.evaluate(_BARS)
    for bar_width, parts in bars:
        for label, width in parts:
            said = float(label.removesuffix(" %").rpartition(" ")[2])
            assert 100 * width / bar_width == pytest.approx(said, abs=1), (label, parts)
    return len(bars)
