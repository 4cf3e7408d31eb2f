"""Structured log lines."""

from __future__ import annotations

import json
import logging
from typing import Any

from scalecurve_operator.__main__ import JsonLines


def line(message: str, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("scalecurve_operator.x", logging.WARNING, "f", 1, message, (), None)
    record.__dict__.update(more)
    text = JsonLines().format(record)
    assert "\n" not in text
    return dict(json.loads(text))


def test_a_log_line_names_its_experiment() -> None:
    found = line("team-a/resnet-50: started\nfoo")
    assert {name: found[name] for name in ("level", "namespace", "experiment")} == {
        "level": "warning",
        "namespace": "team-a",
        "experiment": "resnet-50",
    }
    assert "experiment" not in line("holding the lease as a/b: yes")
    assert "ValueError: why" in line("no", exc_info=(ValueError, ValueError("why"), None))["exception"]
