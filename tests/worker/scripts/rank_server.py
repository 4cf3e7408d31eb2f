"""Ranks by fork: torch is loaded once, and each rank runs its script as a fresh interpreter would.

A line of standard input is a request, {"script", "arguments", "workers", "environment", "log"}; the line of output that
answers it is the exit status, 0 or that of the first rank that failed. The other ranks are ended then, as torchrun
does. Ranks end with the server, and the server with whoever started it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch

import scalecurve_worker.torch.program  # noqa: F401
from scalecurve_worker.process.startup import die_with_parent
from scalecurve_worker.torch.strategies import STRATEGIES

STRATEGIES.loadable()
# torch imports the rest of itself, as much again as it began with, with the first optimizer.
torch.optim.SGD([torch.zeros(1)], lr=0.1)


def become_rank(request: dict[str, Any], rank: int) -> NoReturn:
    """Run the script as ``__main__``, with torchrun's variables but its address: ranks meet in the trial's folder.

    A rank that fails leaves by its exception, as any interpreter does.
    """
    die_with_parent()
    here, world = str(rank), str(request["workers"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ.update(RANK=here, LOCAL_RANK=here, WORLD_SIZE=world, LOCAL_WORLD_SIZE=world)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(ours, theirs)
    sys.argv = [request["script"], *request["arguments"]]
    try:
        run_as_main(Path(request["script"]))
    except SystemExit as left:
        if left.code:
            raise
    # As ranks of the built-in programs end: to take torch apart takes most of a second.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run_as_main(script: Path) -> None:
    """As runpy does, except that handlers of the interpreter's end still find the script and its arguments."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(script)
    exec(compile(script.read_bytes(), script, "exec"), vars(main))


def wait_for(ranks: set[int]) -> int:
    """The first status other than 0, else 0."""
    failed = 0
    while ranks:
        pid, status = os.wait()
        ranks.discard(pid)
        if status and not failed:
            failed = os.waitstatus_to_exitcode(status)
            for other in ranks:
                os.kill(other, signal.SIGKILL)
    return failed


def main() -> None:
    """Serve until the input ends."""
    die_with_parent()
    # A fork has the thread that forks and no other: what waits for one of the others would wait for ever.
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads in the server"
    # What the server has loaded stays; a rank that collects garbage would copy all of it.
    gc.freeze()
    for line in sys.stdin:
        request, ranks = json.loads(line), set()
        for rank in range(request["workers"]):
            pid = os.fork()
            if pid == 0:
                become_rank(request, rank)
            ranks.add(pid)
        print(wait_for(ranks), flush=True)


if __name__ == "__main__":
    main()
