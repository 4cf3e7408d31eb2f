"""Models and data against torch's, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tensorflow_ranks import MINUTES_S, SCRIPTS, needs_tensorflow

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900), needs_tensorflow]


def test_models_and_data_are_those_of_torch() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "models_and_data.py")], capture_output=True, text=True, timeout=MINUTES_S * 2
    )
    assert done.returncode == 0, done.stdout + done.stderr
