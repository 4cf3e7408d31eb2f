"""Debian's chromium, driven by Playwright: reports open in a real browser, of any size, with and without scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OFFLINE = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def program() -> str | None:
    """The browser's program; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def started() -> Iterator[Browser]:
    """A browser without a window, with a profile of its own; it ends with the context."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox", *OFFLINE])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, file: Path, width: int = 1280, height: int = 800, *, scripts: bool = True, dark: bool = False
) -> Iterator[Page]:
    """The page of a file; what its console says, its errors and every request beyond the file fail the test."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        java_script_enabled=scripts,
        color_scheme="dark" if dark else "light",
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    address = file.as_uri()
    page.on("request", lambda request: complaints.append(request.url) if request.url != address else None)
    try:
        page.goto(address)
        yield page
    finally:
        context.close()
    assert not complaints
