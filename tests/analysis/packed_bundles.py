"""The bundles that are packed beside the documentation's evidence."""

from __future__ import annotations

from pathlib import Path

from tools import ROOT

PACKED = [path for path in sorted((ROOT / "docs" / "evidence").rglob("*.zip")) if path.name != "raw.zip"]


def name_of(packed: Path) -> str:
    return f"{packed.parent.name}/{packed.stem}"
