"""All-reduces composed of torch.distributed's other collectives, by real ranks over gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.forked_ranks import fork_ranks
from tests.worker.worker_ranks import SCRIPTS

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(("ranks", "per_node"), [(4, 2), (2, 1)])
def test_patterns_add_up(tmp_path: Path, ranks: int, per_node: int) -> None:
    fork_ranks(tmp_path, ranks, SCRIPTS / "patterns.py", str(per_node))
