"""``python -m scalecurve_operator``: exits with 0 when told to stop, with 1 when the lease or the watches were lost."""

import asyncio
import json
import logging
import os
import re
import sys
from datetime import UTC, datetime

from scalecurve_operator.settings import SettingsError, read_settings

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


def main() -> int:
    """Run until SIGTERM; 2 for invalid settings."""
    try:
        settings = read_settings()
    except SettingsError as error:
        print(f"scalecurve operator: {error}", file=sys.stderr)
        return 2
    configure(settings.log_level, settings.log_format)
    from scalecurve_operator.main import Operator

    async def run() -> int:
        code = 1
        try:
            code = await Operator(settings).run()
        except Exception:
            logging.getLogger(__name__).exception("the operator failed")
        # Watches of kopf 1.45.2 may survive their cancellation, and asyncio.run() would wait for them forever.
        logging.shutdown()
        os._exit(code)

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
