"""Draw the pictures on the pages again, and compare them with the files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.testing.compare import compare_images
from matplotlib.testing.exceptions import ImageComparisonFailure

from scalecurve import open_bundles, report
from tests.analysis.reporting import browser
from tools import ROOT
from tools.claims import notebook
from tools.claims.claims_file import BundlePicture, ClaimsFile, DatedPicture, TerminalPicture
from tools.claims.terminal import svg
from tools.docs.live import report_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = ROOT / "docs/images"
FAR = 3.0
"""Root mean square of the difference of two pictures' pixels, of 255, from which they are not the same picture."""


def check(file: ClaimsFile, *, write: bool) -> list[str]:
    """What is out of order, a line each; ``write`` puts what was drawn in the place of what differs."""
    named = {name for kind in (file.pictures, file.terminals, file.dated_pictures) for name in _names(kind)}
    found = [f"{path}: a picture that claims.toml does not name" for path in _files() if path not in named]
    for terminal in file.terminals:
        found += _check_terminal_picture(terminal, write=write)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        beside = stack.enter_context(ThreadPoolExecutor(1))  # a notebook runs in a process of its own
        ran = [beside.submit(lambda path: list(_ran(path, write=write)), ROOT / each.file) for each in file.notebooks]
        chromium = stack.enter_context(browser.started()) if browser.program() else None
        for number, picture in enumerate(file.pictures):
            folder = Path(scratch, str(number))
            if picture.plot is None and chromium is None:
                print(f"skipped: {picture.file} (no chromium on PATH)")
                continue
            drawn = _plot(picture, folder) if picture.plot else _screenshot(picture, folder, chromium)
            found += _check_bundle_picture(picture, drawn, write=write)
        found += [line for run in ran for line in run.result()]
    return found


def _check_terminal_picture(picture: TerminalPicture, *, write: bool) -> Iterator[str]:
    file, drawn = ROOT / picture.file, svg(picture)
    if file.is_file() and file.read_text(encoding="utf-8") == drawn:
        return
    if write:
        file.write_text(drawn, encoding="utf-8")
        print(f"written: {picture.file}")
    else:
        yield f"{picture.file}: not what {' '.join(picture.command)} prints; `python -m tools.claims --write` draws it"


def _ran(file: Path, *, write: bool) -> Iterator[str]:
    now = notebook.executed(file)
    if list(notebook.tables(now)) != list(notebook.tables(file.read_text(encoding="utf-8"))):
        name = file.relative_to(ROOT)
        if write:
            file.write_text(now, encoding="utf-8")
            print(f"written: {name}")
        else:
            yield f"{name}: not what its cells give; `python -m tools.claims --write` runs it"


def _names(pictures: Sequence[BundlePicture | TerminalPicture | DatedPicture]) -> list[str]:
    return [picture.file for picture in pictures]


def _files() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in FOLDER.iterdir())


def _plot(picture: BundlePicture, folder: Path) -> Path:
    report(open_bundles([ROOT / picture.bundle]), folder, ["png"])
    return folder / "plots" / f"{picture.plot}.png"


def _screenshot(picture: BundlePicture, folder: Path, chromium: Browser | None) -> Path:
    assert chromium is not None
    folder.mkdir()
    page, file = folder / "report.html", folder / "screenshot.png"
    page.write_text(report_page(picture.bundle, picture.prices or ""), encoding="utf-8")
    with browser.opened(chromium, page, picture.width, picture.height) as shown:
        shown.screenshot(path=file)
    return file


def _check_bundle_picture(picture: BundlePicture, drawn: Path, *, write: bool) -> Iterator[str]:
    file = ROOT / picture.file
    if not drawn.is_file():
        yield f"{picture.file}: {picture.bundle} has no plot {picture.plot!r}"
        return
    fault = difference(file, drawn) if file.is_file() else "missing"
    if not fault:
        return
    if write:
        shutil.copyfile(drawn, file)
        print(f"written: {picture.file}")
    else:
        yield f"{picture.file}: {fault}; `python -m tools.claims --write` draws it"


def difference(file: Path, drawn: Path) -> str:
    """How the file differs from what was drawn; nothing where it does not."""
    with tempfile.TemporaryDirectory() as scratch:  # the comparison writes beside the second file
        copy = shutil.copyfile(drawn, Path(scratch, "drawn.png"))
        try:
            result = compare_images(str(file), str(copy), FAR, in_decorator=True)
        except ImageComparisonFailure as error:
            return str(error).splitlines()[0]
    return f"not what its bundle gives now: pixels differ by {result['rms']:.1f} of 255" if result else ""
