from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from scalecurve_worker.torch.nccl_log import log_file, logged, transport

LINE = "node1:901:930 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_nccl_is_told_where_to_log_only_while_it_starts() -> None:
    with logged():
        assert (os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_FILE"]) == ("INFO", str(log_file()))
        log_file().write_text(LINE)
    assert not [name for name in os.environ if name.startswith("NCCL_DEBUG")]
    seen = transport(0)
    assert seen is not None
    assert seen.peers == {"1": "SHM"}
    assert not log_file().exists()
    assert transport(0) is None


def test_a_log_of_the_users_own_stays_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    with logged():
        assert os.environ["NCCL_DEBUG"] == "WARN"
        assert "NCCL_DEBUG_FILE" not in os.environ
    assert os.environ["NCCL_DEBUG"] == "WARN"
