"""Parameter servers by fork, begun while a rank has one thread yet and waiting for what to serve.

An interpreter that loads torch costs 3 s of CPU, and a rank that was forked has it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.parameter_servers import server, worker
from scalecurve_worker.features.parameter_servers.server import ServerSpec

SPAWN = worker._spawn


@dataclass
class ForkedServer:
    """What a worker uses of the ``Popen`` of a server, and the pipes."""

    pid: int
    requests: int
    answers: int

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fork_servers(rank: int, workers: int, trials: Sequence[TrialSpec]) -> None:
    """Have the servers of this rank ready, but those of the last trial with servers: they start as ever."""
    served = [trial.workload.parameter_server for trial in trials if trial.workload.strategy == "parameter-server"]
    mine = [index for settings in served[:-1] for index in range(settings.servers) if index % workers == rank]
    ready = [_fork_server() for _ in mine]

    def begin(spec: ServerSpec) -> tuple[ForkedServer, int]:
        forked = ready.pop()
        with os.fdopen(forked.requests, "w") as pipe:
            pipe.write(json.dumps(spec.wire()) + "\n")
        with os.fdopen(forked.answers) as pipe:
            return forked, int(pipe.readline())

    vars(worker)["_spawn"] = lambda spec: begin(spec) if ready else SPAWN(spec)


def _fork_server() -> ForkedServer:
    requests_end, requests = os.pipe()
    answers, answers_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _serve(requests_end, answers_end)
    os.close(requests_end)
    os.close(answers_end)
    return ForkedServer(pid, requests, answers)


def _serve(requests: int, answers: int) -> NoReturn:
    sys.stdin, sys.stdout = os.fdopen(requests), os.fdopen(answers, "w")
    server.main()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()
    os._exit(0)
