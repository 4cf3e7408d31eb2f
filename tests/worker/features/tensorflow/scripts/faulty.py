"""One process of ``program: tensorflow`` with a fault put in: FAULT names it."""

from __future__ import annotations

import os
import sys

from faults import FAULTS

from scalecurve_worker.__main__ import main

if __name__ == "__main__":
    with FAULTS[os.environ["FAULT"]]():
        sys.exit(main())
