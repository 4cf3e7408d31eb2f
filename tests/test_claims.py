"""Numbers and pictures on pages are computed again from their bundles."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from tests.analysis.reporting import browser
from tools import ROOT
from tools.claims import pages, pictures, recompute
from tools.claims.claims_file import (
    BundleClaim,
    BundlePicture,
    ClaimsError,
    ClaimsFile,
    Quote,
    TerminalPicture,
    read,
)
from tools.claims.pictures import difference

WEAK = "series.str.startswith('weak')"
BUNDLE = "tests/fixtures/resnet50-h200.zip"
SPEEDUP = BundleClaim(
    id="it",
    bundle=BUNDLE,
    table="scaling",
    where="series.str.startswith('strong') and workers == 2",
    text="{speedup:.5f}x",
)
NOTHING = ClaimsFile()
CLAIMS = NOTHING.model_copy(
    update={"claims": (SPEEDUP,), "quotes": (Quote(page="README.md", text="Two are {it} as fast as one"),)}
)
PICTURE = BundlePicture(file="docs/images/speedup.png", bundle=BUNDLE, plot="speedup")
DRAWN = NOTHING.model_copy(update={"pictures": (PICTURE,)})
STALE = f"{PICTURE.file}: "


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
        ('[[claim]]\nid = "A b"\n', "claim.0.id"),
        ("[[clame]]\n", "clame"),
        (f'[[picture]]\nfile = "a.png"\nbundle = "{BUNDLE}"\n' * 2, "a.png"),
    ],
)
def test_a_faulty_file_of_claims(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(text)
    with pytest.raises(ClaimsError, match=fault):
        read(file)


def test_a_stale_picture_is_seen(tmp_path: Path) -> None:
    drawn, darker, smaller = (tmp_path / name for name in ("drawn.png", "darker.png", "smaller.png"))
    pixels = np.full((60, 80, 3), 200, np.uint8)
    for file, changed in ((drawn, pixels), (darker, pixels - 40), (smaller, pixels[:50])):
        Image.fromarray(changed).save(file)
    assert difference(drawn, drawn) == ""
    assert "40.0" in difference(drawn, darker)
    assert "(50, 80, 3)" in difference(drawn, smaller)


def test_words_of_a_page_break_anywhere(tmp_path: Path) -> None:
    quote = Quote(page="README.md", text="are {one} and {two} of it.")
    page = "They are 1.76x\nand 5\n> % of\nit."
    texts = {"one": "1.76x", "two": "5 %"}
    assert pages.compared(page, quote, texts, write=False) == (page, [])
    assert pages.compared(page, quote, texts, write=True) == (page, [])
    now, _ = pages.compared(page, quote, {"one": "1.77x", "two": "5 %"}, write=True)
    assert now == page.replace("1.76x", "1.77x")


def test_a_row_is_quoted_in_full() -> None:
    quote = Quote(page="README.md", text="| a | {row} |")
    page = "| a | 1 | 2 |\n| b | 3 | 4 |\n"
    assert pages.compared(page, quote, {"row": "1 | 2"}, write=False) == (page, [])
    assert pages.compared(page, quote, {"row": "1 | 5"}, write=True) == (page.replace("2", "5"), [])


@pytest.mark.parametrize(("page", "times"), [("It is gone.", 0), ("they are 1 s of it; they are 2 s of it", 2)])
def test_words_stand_once_on_their_page(page: str, times: int) -> None:
    quote = Quote(page="README.md", text="are {one} of it")
    _, (line,) = pages.compared(page, quote, {"one": "1 s"}, write=False)
    assert f"stand {times} times" in line


@pytest.mark.parametrize("text", ["{one} of it", "it is {one}", "no claim"])
def test_words_around_a_claim_are_required(text: str) -> None:
    with pytest.raises(ValidationError):
        Quote(page="README.md", text=text)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one page, one claim and its bundle, all in order."""
    for module in (pages, pictures, recompute):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "docs/images")
    monkeypatch.setattr(browser, "program", lambda: None)
    (tmp_path / BUNDLE).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / BUNDLE, tmp_path / BUNDLE)
    (tmp_path / "README.md").write_text(f"# It\n\nTwo are {recompute.text(SPEEDUP)} as fast as one.\n")
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
    assert len(digits) == 6
    for at in digits:
        page.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
        (line,) = pages.check(CLAIMS, write=False)
        assert line.startswith("README.md:3: claim it: ")


def test_what_is_computed_is_written(repository: Path) -> None:
    page = repository / "README.md"
    text = page.read_text()
    page.write_text(text.replace("1.80", "1.90"))
    assert pages.check(CLAIMS, write=True) == []
    assert page.read_text() == text


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
    moved = CLAIMS.model_copy(update={"claims": (SPEEDUP.model_copy(update={"bundle": "other.zip"}),)})
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
    named = NOTHING.model_copy(update={"terminals": (picture,)})
    pictures.check(named, write=True)
    assert pictures.check(named, write=False) == []
    file = repository / picture.file
    file.write_text(file.read_text().replace("$", "#", 1))
    (line,) = pictures.check(named, write=False)
    assert line.startswith(f"{picture.file}: ")
