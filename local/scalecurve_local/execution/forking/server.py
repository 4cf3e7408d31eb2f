"""``python -m ...forking.server FD MODULE...``: load modules once, then fork a supervisor for each trial.

The supervisor is as any other, but its ranks are forks of it that run the worker's program and execute nothing, so
what was loaded is there. Everything is asked for and answered in turns over the socket ``FD``, by the engine alone;
its end of file is the engine's death, and ends this process. This process computes nothing and has one thread: a fork
has only the thread that forked, and a pool of threads that was begun before would be missing in it.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from typing import NoReturn

from scalecurve_api.contract import START_ENV, THREADS_ENV
from scalecurve_local.supervision.supervisor import supervise

READY = b"ready"
MAX_MESSAGE = 1 << 16
MAX_DESCRIPTORS = 250  # 253 is the kernel's own limit (SCM_MAX_FD)
_WORKER = "scalecurve_worker.__main__"


def main() -> int:
    """Load the modules, say so, and serve until the engine is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    # What is loaded will never be garbage: a collection in a fork would copy every page of it.
    gc.freeze()
    control.sendall(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, MAX_DESCRIPTORS)
        if not message:
            return 0
        request = json.loads(message)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            control.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _become_supervisor(request["order"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(str(pid).encode())


def _become_supervisor(order: str, descriptors: Sequence[int]) -> NoReturn:
    """In the fork: take over the engine's pipe, the log and the locks, and supervise the trial to its end."""
    status = 1
    try:
        environment, requests, log, *_ = descriptors
        with open(environment, "rb") as file:
            variables = json.load(file)
        os.environ.clear()
        os.environ.update(variables)
        os.environ[START_ENV] = "forked"
        os.setsid()
        os.chdir(os.sep)
        os.dup2(requests, 0)
        os.dup2(log, 2)
        os.close(requests)
        os.close(log)
        status = supervise(order, run_rank)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def run_rank(_: str, argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """In a fork of the supervisor, in place of ``os.execvpe``: run the trial's program, and end as its process would.

    A torch that is already loaded reads no thread count from the environment.
    """
    try:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # TMPDIR is the trial's own
        sys.argv = list(argv)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(write_through=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if (threads := environment.get(THREADS_ENV, "")).isdigit() and "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(threads))
        worker = importlib.import_module(_WORKER)
        worker.end(worker.main())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
