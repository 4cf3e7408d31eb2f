"""Wait for an event, with one patience for all tests: how long it takes says how busy the machine is.

A test that must see something waits with `eventually`; one that must see nothing looks with `consistently`. No other
test sleeps or compares a clock with a constant.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

PATIENCE_S = 240.0
"""Forever on a machine that is heavily contended (Kubernetes: ForeverTestTimeout), and within pytest's limit."""
_POLL_S = 0.01


def eventually(
    condition: Callable[[], Value],
    event: str,
    patience_s: float = PATIENCE_S,
    *,
    log: Callable[[], str] = str,
    poll_s: float = _POLL_S,
) -> Value:
    """Return the first true value of `condition`, as soon as there is one.

    `event` says what is waited for; `log` gives what the waited-for process has said, for the error. Raises
    AssertionError with the last value, the machine's load and that log.
    """
    end = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > end:
            load = Path("/proc/loadavg").read_text().strip()
            message = f"waited {patience_s:g} s for {event}; last: {value!r}; load: {load}\n{log()}"
            raise AssertionError(message.rstrip())
        time.sleep(poll_s)
    return value


def consistently(condition: Callable[[], object], claim: str, seconds: float, poll_s: float = 0.05) -> None:
    """Check that `condition` holds now and stays true for so long. On a slow machine it only sees less.

    Raises AssertionError with `claim` (what should hold).
    """
    end = time.monotonic() + seconds
    while True:
        assert condition(), f"no longer true: {claim}"
        if time.monotonic() > end:
            return
        time.sleep(poll_s)
