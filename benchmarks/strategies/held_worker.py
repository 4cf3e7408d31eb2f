"""The worker, loaded and waiting: it begins once a file is there, so that a trial's start is not paid one by one.

    HOLD=/tmp/go torchrun --standalone -m benchmarks.strategies.held_worker

Nothing of a GPU is touched before. It ends with its launcher.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path

from scalecurve_worker.__main__ import main as work
from scalecurve_worker.process.startup import prepare


def main() -> int:
    """Load, wait, work."""
    prepare()
    importlib.import_module("scalecurve_worker.torch.program")
    while (hold := os.environ.get("HOLD")) and not Path(hold).exists():
        time.sleep(0.05)
    return work()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
