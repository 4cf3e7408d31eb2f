"""The built-in program of the trial, as `python -m scalecurve_worker` runs it."""

import sys

from scalecurve_worker.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
