"""Numbers on pages are bound to what they came from: marks, unbound numbers, texts from bundles, pictures."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.analysis.reporting import browser
from tools import ROOT
from tools.claims import pages, pictures, recompute
from tools.claims.claims_file import FILE, BundleClaim, BundlePicture, ClaimsFile, Stated, TerminalPicture, read
from tools.claims.entries import EntryError
from tools.claims.marks import BrokenMark, ClaimMark, differs, marks, replaced, unmarked
from tools.claims.numbers import measured, places, repeats, unbound, within
from tools.claims.pictures import difference

NUMBERS = [
    ("Throughput fell by 5.2 % (2.9–7.4 %).", ["5.2 %", "2.9–7.4 %"]),
    ("1.76x, 3 s, 12 ms and 1,024 samples/s", ["1.76x", "3 s", "12 ms", "1,024 samples/s"]),
    ("`--tolerance 5%` and\n\n    in 3 s\n\n```\n4 s\n```\nin 5 s\n", ["5 s"]),
    ("[4 s](5-s.md) of 2x-large in v1.5 s3", ["4 s"]),
    ("<!-- claim: a -->4 s<!-- /claim --> and 5 s", ["5 s"]),
    ("ResNet-50 on 4 GPUs with 3 repetitions in 2026", []),
]
"""Pages, and the numbers on them that look measured."""
WEAK = "series.str.startswith('weak')"
BUNDLE = "tests/fixtures/resnet50-h200.zip"
SPEEDUP = BundleClaim(
    id="it",
    bundle=BUNDLE,
    table="scaling",
    where="series.str.startswith('strong') and workers == 2",
    text="{speedup:.5f}x",
)
NOTHING = ClaimsFile((), (), (), (), (), (), (), (), (), (), ())
CLAIMS = replace(NOTHING, claims=(SPEEDUP,), stated=(Stated(page="README.md", texts=["at 2.5 s"], why="a setting"),))
PICTURE = BundlePicture(file="docs/images/speedup.png", bundle=BUNDLE, plot="speedup")
DRAWN = replace(NOTHING, pictures=(PICTURE,))
STALE = f"{PICTURE.file}: "


def found(page: str, *stated: str) -> list[str]:
    return [number.text for number in unbound(page, stated)]


def test_marks_of_a_page() -> None:
    page = "a\n**<!-- claim: one -->1.76x<!-- /claim -->** and <!-- claim: two -->5\n%<!-- /claim -->"
    assert marks(page) == [ClaimMark("one", "1.76x", 2), ClaimMark("two", "5\n%", 2)]
    assert replaced(page, {"one": "1.77x", "two": "5 %"}) == page.replace("1.76x", "1.77x"), "a line break is no change"
    assert replaced(page, {}) == page
    assert unmarked(page) == "a\n**** and \n"


def test_a_mark_in_code_is_only_shown() -> None:
    page = "`<!-- claim: one -->1<!-- /claim -->` and <!-- claim: two -->2<!-- /claim -->"
    assert [mark.id for mark in marks(page)] == ["two"]
    assert replaced(page, {"one": "3", "two": "4"}) == page.replace("2", "4")


def test_a_mark_between_code_is_one() -> None:
    page = "`code`: <!-- claim: one -->1 `s`<!-- /claim --> of `code`"
    assert [mark.id for mark in marks(page)] == ["one"]
    assert replaced(page, {"one": "2 `s`"}) == page.replace("1", "2")
    assert unmarked(page) == ":  of "


def test_a_block_keeps_lines_of_its_own() -> None:
    page = "<!-- claim: table -->\n| 1 |\n<!-- /claim -->"
    assert replaced(page, {"table": "| 2 |"}) == page.replace("1", "2")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- claim: one -->1",
        "1<!-- /claim -->",
        "<!-- claim: one -->1<!-- claim: two -->2<!-- /claim -->",
    ],
)
def test_a_mark_without_its_other_end(page: str) -> None:
    with pytest.raises(BrokenMark, match="line 2"):
        marks("first\n" + page)


@pytest.mark.parametrize(("text", "numbers"), NUMBERS)
def test_numbers_that_look_measured(text: str, numbers: list[str]) -> None:
    assert found(text) == numbers


def test_what_is_stated_is_not_measured() -> None:
    assert found("A 95 %\ninterval; 94 % of them", "95 % interval") == ["94 %"]


def test_a_number_knows_its_column_and_its_headings() -> None:
    page = "# Page\n\n## One `a`\n\n3 s\n\n| name | bar |\n|---|---|\n| it | 4 s |\n\n## Two\n\n5 s\n"
    assert [(each.text, each.column, each.sections) for each in measured(page)] == [
        ("3 s", "", ("Page", "One `a`")),
        ("4 s", "bar", ("Page", "One `a`")),
        ("5 s", "", ("Page", "Two")),
    ]


def test_a_number_lies_within_the_words_that_hold_it() -> None:
    page = "it took\n3 s and 4 s"
    spans = places(page, ["took 3 s"])
    assert [within(each, spans) for each in measured(page)] == [True, False]


@pytest.mark.parametrize(
    ("words", "same"),
    [("3.1 s and 2,000", True), ("3.14 s", True), ("3.2 s", False), ("5 s", False), ("no number", True)],
)
def test_what_repeats_a_number_has_it_in_full_or_rounded(words: str, same: bool) -> None:
    assert repeats(words, "3.14 s, 2,000 images") is same


def claim(**fields: str) -> BundleClaim:
    given = {"where": "mode == 'strong' and workers == 2", "text": "{speedup:.2f}x, {efficiency:.1f} %"} | fields
    return BundleClaim(id="it", bundle=BUNDLE, table=given.pop("table", "scaling"), **given)


def test_a_claim_is_computed_from_its_bundle() -> None:
    strong = "series.str.startswith('strong') and workers == 2"
    text = recompute.text(claim(where=strong))
    speedup, efficiency = text.removesuffix(" %").split("x, ")
    assert 1 < float(speedup) < 2
    assert float(efficiency) == pytest.approx(float(speedup) / 2 * 100, abs=0.3)
    both = recompute.text(claim(where="workers == 2", text="{speedup:.2f}", separator="\n"))
    assert both.splitlines()[0] == speedup
    assert len(both.splitlines()) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"table": "no"}, "table"),
        ({"where": "nothing == 2"}, "where"),
        ({"where": "workers == 3"}, "where"),
        ({"where": "workers == 2"}, "where"),
        ({"where": "workers ="}, "where"),
        ({"where": f"workers == 1 and {WEAK}", "text": "{nothing}"}, "text"),
    ],
)
def test_a_claim_that_its_bundle_does_not_answer(fields: dict[str, str], field: str) -> None:
    with pytest.raises(recompute.ClaimError, match=f"it: {field}: "):
        recompute.text(claim(**fields))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[[claim]]\nid = "a"\nbundle = "no.zip"\ntable = "t"\nwhere = ""\ntext = ""\n', "no.zip"),
        ('[[claim]]\nid = "A b"\n', "claim 1: id"),
        ("[[clame]]\n", "clame"),
        (f'[[picture]]\nfile = "a.png"\nbundle = "{BUNDLE}"\n' * 2, "a.png"),
    ],
)
def test_a_faulty_file_of_claims(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(text)
    with pytest.raises(EntryError, match=fault):
        read(file)


def test_a_stale_picture_is_seen(tmp_path: Path) -> None:
    drawn, darker, smaller = (tmp_path / name for name in ("drawn.png", "darker.png", "smaller.png"))
    pixels = np.full((60, 80, 3), 200, np.uint8)
    for file, changed in ((drawn, pixels), (darker, pixels - 40), (smaller, pixels[:50])):
        Image.fromarray(changed).save(file)
    assert difference(drawn, drawn) == ""
    assert "40.0" in difference(drawn, darker)
    assert "(50, 80, 3)" in difference(drawn, smaller)


def test_a_changed_digit_is_drift() -> None:
    file = read(FILE)
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    first = next(mark for mark in marks(text) if mark.id in {each.id for each in file.claims})
    computed = {each.id: recompute.text(each) for each in file.claims if each.id == first.id}[first.id]
    digit = next(each for each in first.text if each.isdigit())
    changed = first.text.replace(digit, str((int(digit) + 1) % 10), 1)
    assert not differs(first.text, computed)
    page = pages.CheckedPage(readme, text.replace(first.text, changed))
    (line, *_) = pages.drift(page, {mark.id: computed for mark in marks(text) if mark.id == first.id}, set())
    assert f"claim {first.id}" in line


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one page, one claim and its bundle, all in order."""
    for module in (pages, pictures, recompute):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "docs/images")
    monkeypatch.setattr(browser, "program", lambda: None)
    (tmp_path / BUNDLE).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / BUNDLE, tmp_path / BUNDLE)
    said = f"<!-- claim: it -->{recompute.text(SPEEDUP)}<!-- /claim -->"
    (tmp_path / "README.md").write_text(f"# It\n\nTwo are {said} as fast as one, at 2.5 s.\n")
    (tmp_path / "docs/images").mkdir(parents=True)
    assert pages.check(CLAIMS, write=False) == []
    return tmp_path


def change(bundle: Path, *trials: str) -> None:
    """Change the records of trials in a packed bundle: they no longer agree with themselves, and do not count."""
    with zipfile.ZipFile(bundle) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    for name in (f"trials/{trial}/trial.json" for trial in trials):
        record = json.loads(members[name])
        record["summary"]["throughput"] *= 0.8
        members[name] = json.dumps(record).encode()
    with zipfile.ZipFile(bundle, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    recompute.tables.cache_clear()


def test_every_changed_digit_of_a_page_is_named(repository: Path) -> None:
    page = repository / "README.md"
    text = page.read_text()
    digits = [at for at, letter in enumerate(text) if letter.isdigit()]
    assert len(digits) == 8
    for at in digits:
        page.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
        found = pages.check(CLAIMS, write=False)
        faults = ("README.md:3: ", "README.md: 1 ")
        assert any(line.startswith(faults) for line in found)


def test_only_what_is_computed_is_written(repository: Path) -> None:
    page = repository / "README.md"
    text = page.read_text()
    page.write_text(text.replace("1.80", "1.90").replace("2.5", "3.5"))
    found = pages.check(CLAIMS, write=True)
    assert page.read_text() == text.replace("2.5", "3.5")
    assert [line for line in found if "claim it" in line] == []
    assert any(line.startswith("README.md: 1 ") for line in found)


def test_a_changed_bundle_is_named(repository: Path) -> None:
    change(repository / BUNDLE, "strong-2-1x2-r1")
    (line,) = pages.check(CLAIMS, write=False)
    now = recompute.text(SPEEDUP)
    assert line.startswith("README.md:3: ")
    assert line.endswith(f"'{now}'")


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ("docs/evidence/h200/sessions.zip", "README.md:3: "),
        ("tests/fixtures/allreduce-h200.zip", "claims.toml: "),
    ],
)
def test_a_claim_of_another_bundle_is_named(repository: Path, other: str, fault: str) -> None:
    shutil.copyfile(ROOT / other, repository / "other.zip")
    moved = replace(CLAIMS, claims=(SPEEDUP.model_copy(update={"bundle": "other.zip"}),))
    assert pages.check(moved, write=False)[0].startswith(fault)


def test_changed_pixels_of_a_picture_are_named(repository: Path) -> None:
    file = repository / PICTURE.file
    pictures.check(DRAWN, write=True)
    assert pictures.check(DRAWN, write=False) == []
    with Image.open(file) as drawn:
        pixels = np.asarray(drawn.convert("RGB")).copy()
    pixels[100:140, 100:140] = 255 - pixels[100:140, 100:140]
    Image.fromarray(pixels).save(file)
    (line,) = pictures.check(DRAWN, write=False)
    assert line.startswith(STALE)


def test_a_picture_of_a_bundle_that_changed_is_named(repository: Path) -> None:
    pictures.check(DRAWN, write=True)
    change(repository / BUNDLE, *(f"strong-4-1x4-r{repetition}" for repetition in (1, 2, 3)))
    (line,) = pictures.check(DRAWN, write=False)
    assert line.startswith(STALE)


def test_a_picture_that_is_not_there_is_named(repository: Path) -> None:
    (line,) = pictures.check(DRAWN, write=False)
    assert line.startswith(f"{PICTURE.file}: missing; ")


def test_a_picture_that_nothing_draws_is_named(repository: Path) -> None:
    (repository / "docs/images/left.png").write_bytes(b"")
    (line,) = pictures.check(NOTHING, write=False)
    assert line.partition(":")[0] == "docs/images/left.png"


@pytest.mark.processes
def test_a_changed_byte_of_a_picture_of_a_terminal_is_named(repository: Path) -> None:
    picture = TerminalPicture(file="docs/images/version.svg", command=["scalecurve", "--version"])
    named = replace(NOTHING, terminals=(picture,))
    pictures.check(named, write=True)
    assert pictures.check(named, write=False) == []
    file = repository / picture.file
    file.write_text(file.read_text().replace("$", "#", 1))
    (line,) = pictures.check(named, write=False)
    assert line.startswith(f"{picture.file}: ")
