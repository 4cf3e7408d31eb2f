"""``python -m scalecurve_operator``: exits with 0 when told to stop, with 1 when the lease or the watches were lost."""

import asyncio
import logging
import os
import sys

from scalecurve_operator.logs import configure
from scalecurve_operator.settings import SettingsError, read_settings


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
