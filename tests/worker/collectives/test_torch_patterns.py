"""All-reduces composed of torch.distributed's other collectives, by real ranks over gloo."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.worker.worker_ranks import SCRIPTS, launch

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(("ranks", "per_node"), [(4, 2), (2, 1)])
def test_patterns_add_up(tmp_path: Path, ranks: int, per_node: int) -> None:
    launch(tmp_path, [sys.executable, str(SCRIPTS / "forked_patterns.py"), str(ranks), str(per_node)])
