"""Structured logs: one JSON object a line, with the experiment and trial that a message is about."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

_EXPERIMENT = re.compile(r"^(?P<namespace>[a-z0-9-]+)/(?P<experiment>[a-z0-9-]+): ")


class JsonLines(logging.Formatter):
    """time, level, logger, message; namespace and experiment where the message begins with them."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage()
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if found := _EXPERIMENT.match(message):
            entry |= {"namespace": found["namespace"], "experiment": found["experiment"]}
        for name in ("trial", "attempt"):
            if (value := getattr(record, name, None)) is not None:
                entry[name] = value
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up(level: str, form: str) -> None:
    """Everything to stderr; kopf and libraries from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else plain)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("scalecurve_operator").setLevel(level)
