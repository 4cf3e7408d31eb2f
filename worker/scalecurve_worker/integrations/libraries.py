"""Imports a framework, and reports in one line that it is missing or too old."""

import importlib
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from scalecurve_worker.process.failure import report_uncaught
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder


class LibraryError(ImportError):
    """A framework that is not installed, or not in a version that this integration knows."""


def library(module: str, distribution: str, least: str) -> Any:
    """Import the module of a framework, at version ``least`` of its ``distribution`` or later.

    Raises:
        LibraryError: it is not installed, or older.
    """
    package, _, _ = distribution.partition("[")
    try:
        installed = version(package)
    except PackageNotFoundError:
        raise _refused(f"{distribution} {least} or later is needed and not installed", distribution) from None
    if _numbers(installed) < _numbers(least):
        raise _refused(f"{distribution} {least} or later is needed, and {installed} is installed", distribution)
    return importlib.import_module(module)


def _refused(why: str, distribution: str) -> LibraryError:
    # attach() was not called yet: the engine learns of it by the same means.
    report_uncaught(out_folder(), identify().rank)
    return LibraryError(f"scalecurve_worker.integrations: {why}; run: pip install -U '{distribution}'")


def _numbers(text: str) -> tuple[int, ...]:
    """Major and minor number of a version."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
