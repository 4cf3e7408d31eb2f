"""Structured logs: one JSON object per line, with the experiment that a message is about."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

_EXPERIMENT = re.compile(r"^(?P<namespace>[a-z0-9-]+)/(?P<experiment>[a-z0-9-]+): ")


class JsonLines(logging.Formatter):
    """Time, level, logger, message; namespace and experiment if the message begins with them."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if match := _EXPERIMENT.match(message):
            entry |= {"namespace": match["namespace"], "experiment": match["experiment"]}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(level: str, log_format: str) -> None:
    """Log to stderr; of kopf and the libraries only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else plain)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for package in ("scalecurve_operator", "scalecurve_kube"):
        logging.getLogger(package).setLevel(level)
