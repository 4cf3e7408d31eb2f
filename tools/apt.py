"""Installs Debian packages, and waits for whoever else is doing so. Standard library only."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

PATIENCE_S = 300
_LOCKED = "Could not get lock"


class AptError(RuntimeError):
    """apt-get failed; what it said is on stderr."""


def install(packages: Sequence[str], patience_s: float = PATIENCE_S) -> None:
    """Install packages without what they recommend.

    apt-get can wait for dpkg's lock alone (``DPkg::Lock::Timeout``); its lock on the lists of packages fails at once.

    Raises:
        AptError: it cannot be done, or another apt-get holds a lock for longer than ``patience_s``.
    """
    deadline = time.monotonic() + patience_s
    for step in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        while (code := _run(step, give_up=time.monotonic() > deadline)) is None:
            time.sleep(2)
        if code:
            raise AptError(f"apt-get {step[0]} exited with {code}; see its output above")


def _run(step: Sequence[str], give_up: bool) -> int | None:
    """Its exit code; None where a lock was held and there is time to try again."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(
        ["apt-get", "--quiet", *step],
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
    )
    if done.returncode and _LOCKED in done.stderr and not give_up:
        return None
    sys.stderr.write(done.stderr)
    return done.returncode
