"""Figures beside their bars: a table for people, JSON for programs, exit code 1 where a bar is missed."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.operator.rig import ROOT
from tools.devcluster import toolchain


@dataclass(frozen=True)
class Figure:
    """One measured number; `most` is its bar, None where there is none."""

    run: str
    what: str
    value: float
    most: float | None = None
    unit: str = ""

    @property
    def missed(self) -> bool:
        """Whether it is over its bar; what could not be measured is."""
        return self.most is not None and not self.value <= self.most


def nearest_rank(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def parser(description: str) -> argparse.ArgumentParser:
    """With the options that every script has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--output", choices=("table", "json"), default="table")
    return made


def report(figures: Sequence[Figure], details: Any, output: str) -> int:
    """Print; the exit code."""
    missed = [figure for figure in figures if figure.missed]
    if output == "json":
        shown = [{**figure.__dict__, "missed": figure.missed} for figure in figures]
        print(json.dumps({"machine": machine(), "figures": shown, "details": details}, indent=1))
    else:
        wide = max((len(figure.run) for figure in figures), default=0)
        for figure in figures:
            bar = "" if figure.most is None else f"<= {figure.most:g}"
            value = f"{figure.value:.3f}".rstrip("0").rstrip(".")
            sign = "MISSED" if figure.missed else ("" if figure.most is None else "ok")
            print(f"{figure.run:{wide}}  {figure.what:42} {value:>10} {figure.unit:5} {bar:10} {sign}".rstrip())
        print(f"{len(missed)} of {sum(figure.most is not None for figure in figures)} bars missed")
    return 1 if missed else 0


def machine() -> dict[str, Any]:
    """What ran where: a time means nothing without it."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    exported = ROOT / "COMMIT"  # in a tree without its history
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": done.stdout.strip() or (exported.read_text().strip() if exported.exists() else None),
        "cores": len(os.sched_getaffinity(0)),
        "load": [round(each, 1) for each in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "kopf": version("kopf"),
        "kubernetes client": version("kubernetes"),
        "kubernetes": toolchain.KUBERNETES,
    }


def say(text: str) -> None:
    """How far it is, for whoever waits."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
