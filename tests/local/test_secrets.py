"""A secret goes to the ranks and into nothing that is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting import report
from scalecurve_local.errors import InputError

from .conftest import Lab

pytestmark = pytest.mark.processes
PLAIN, WORD, NAMED, LEAKED = "plain-canary-Zq81", "word-canary-Zq82", "named-canary-Zq83", "shell-canary-Zq84"
PRINT = "import os, sys; print(dict(os.environ), sys.argv); sys.exit('rank says ' + os.environ['FROM_SECRET'])"


def everything(folder: Path) -> bytes:
    paths = [path for path in folder.rglob("*")]
    return b"".join(path.read_bytes() for path in paths if path.is_file()) + "".join(map(str, paths)).encode()


def test_what_ranks_get_is_kept_nowhere(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FROM_SECRET", NAMED)
    monkeypatch.setenv("SHELLS_TOKEN", LEAKED)
    command = [sys.executable, "-c", PRINT, "--api-key", WORD]
    sources = [{"secret": "hub", "key": "token", "name": "FROM_SECRET"}]
    lab.write(workload={"command": command, "env": {"HF_TOKEN": PLAIN}, "envFrom": sources})
    result = lab.run()
    assert set(lab.record("weak-1-1x1-r1")["logTail"]) & {"0"}
    assert "rank says ***" in str(lab.record("weak-1-1x1-r1"))
    assert result.exit_code == 1
    kept = everything(lab.bundle)
    report([open_bundle(lab.bundle)], tmp_path / "report")
    kept += everything(tmp_path / "report")
    assert b"HF_TOKEN" in kept
    for secret in (PLAIN, WORD, NAMED, LEAKED):
        assert secret.encode() not in kept, secret
    assert lab.run(resume=True).exit_code == 1, "the experiment with its secrets is the bundle's"
    lab.write(workload={"command": command, "env": {"HF_TOKEN": PLAIN + "x"}, "envFrom": sources})
    with pytest.raises(InputError, match=r"another experiment: spec.workload.env.HF_TOKEN is 'redacted:"):
        lab.run(resume=True)


def test_a_variable_that_is_not_set_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FROM_SECRET", raising=False)
    lab.write(workload={"envFrom": [{"secret": "hub", "key": "token", "name": "FROM_SECRET"}]})
    with pytest.raises(InputError, match=r"spec.workload.envFrom\[0\]: FROM_SECRET comes from Secret hub on a cluster"):
        lab.run()
    lab.write(workload={"envFrom": [{"secret": "hub", "key": "token", "name": "FROM_SECRET", "optional": True}]})
    assert lab.run().exit_code == 0
