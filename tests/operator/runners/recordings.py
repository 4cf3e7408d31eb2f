"""Jobs as real controllers left them; ``capture.py`` writes ``seen/``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import RUNNERS

SEEN = Path(__file__).parent / "seen"
KINDS = {runner.value.lower(): runner for runner in Runner}


def seen(name: str) -> dict[str, Any]:
    return dict(json.loads((SEEN / f"{name}.json").read_text()))


def kind(name: str) -> Any:
    return RUNNERS[KINDS[name.partition("-")[0]]]


def names(scenario: str) -> list[str]:
    return sorted(file.stem for file in SEEN.glob(f"*-{scenario}.json"))
