"""Ranks that load torch once for all tests of a process: for tests of numbers, not of how ranks start.

An interpreter that loads torch and makes an optimizer costs 3 s of CPU, and torchrun another 2.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from scalecurve_api.spec.trial import TrialSpec
from tests.worker.ports import free_port
from tests.worker.worker_ranks import SCRIPTS, rank_environment
from tools import ROOT

SECONDS = 900


@functools.cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "rank_server.py")],
        # Scripts of the tests import each other from the root.
        env=rank_environment(Path(os.devnull), None, PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(_stop, server)
    return server


def _stop(server: subprocess.Popen[str]) -> None:
    """End the server and its ranks; nothing to do where it has ended."""
    atexit.unregister(_stop)
    _server.cache_clear()
    with server:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)


def fork_ranks(
    out: Path,
    workers: int,
    script: Path,
    *arguments: str,
    trial: TrialSpec | None = None,
    fails: bool = False,
    **environment: str,
) -> str:
    """Run a script on every rank to its end, and return what the ranks printed; show it when they end otherwise."""
    log, server = out / "ranks.log", _server()
    request = {
        "script": str(script),
        "arguments": arguments,
        "workers": workers,
        "environment": rank_environment(out, trial, **environment),
        "log": str(log),
    }
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        print(json.dumps(request), file=server.stdin, flush=True)
        ready, _, _ = select.select([server.stdout], [], [], SECONDS)
        assert ready, f"ranks still run after {SECONDS} s\n{log.read_text()}"
        status = server.stdout.readline().strip()
        assert status, f"the server of ranks ended\n{log.read_text() if log.exists() else ''}"
    except BaseException:
        # An answer that comes later must not be taken for the next one's.
        _stop(server)
        raise
    assert (status != "0") == fails, f"exit {status}\n{log.read_text()}"
    return log.read_text()


def rendezvous() -> dict[str, str]:
    """Where ranks meet that look for torchrun's address."""
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
