"""The engine's end of the fork server: start it, ask it for supervisors, and do without it once it is gone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import FileIO
from types import TracebackType

from scalecurve_api.programs.workload import Launcher
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.devices.shares import Share
from scalecurve_local.execution.forking.server import MAX_DESCRIPTORS, MAX_MESSAGE, READY

PRELOADED: Mapping[str, Sequence[str]] = {"torch": ("scalecurve_worker.torch.program", "torch._dynamo")}
"""What a rank of a program loads before its first step. torch's optimizers load dynamo."""

_SERVER = "scalecurve_local.execution.forking.server"


class ForkServerError(Exception):
    """The process died, or could not load its modules: trials start in the usual way."""


class ForkedSupervisor:
    """A supervisor that the fork server started, with those parts of ``subprocess.Popen`` that the engine uses."""

    def __init__(self, server: ForkServer, pid: int, stdin: FileIO) -> None:
        self.pid, self.stdin, self._server = pid, stdin, server

    def wait(self) -> int:
        """Wait for its end: its exit code, or a signal as a negative number."""
        try:
            return int(self._server.ask({"wait": self.pid}))
        except ForkServerError:
            return -9  # the kernel ends it with the process that forked it


class ForkServer:
    """A process that has a program's modules loaded, for trials on CPUs: CUDA survives no fork.

    Used as a context; the process starts at once and loads beside whatever comes first.
    """

    def __init__(self, program: str = "torch") -> None:
        self._program = program
        self._ready = False
        self._control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _SERVER, str(far.fileno()), *PRELOADED[program]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Some libraries start their threads when they are loaded, and a fork would lack them.
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                pass_fds=[far.fileno()],
                start_new_session=True,
            )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def suits(self, trial: TrialSpec, share: Share) -> bool:
        """Whether the trial's ranks can be forks: of this program, on CPUs, with nothing set before it is loaded."""
        workload = trial.workload
        return (
            workload.program == self._program
            and workload.resolved_launcher is not Launcher.mpirun
            and not (share.gpus or workload.env or workload.env_from or workload.roles)
        )

    def start(
        self, order: str, environment: Mapping[str, str], log: int, descriptors: Sequence[int]
    ) -> ForkedSupervisor:
        """Start the supervisor of an order; it inherits ``descriptors``.

        Raises:
            ForkServerError: when the server cannot.
        """
        requests, writer = os.pipe()
        variables = os.memfd_create("environment")
        stdin = FileIO(writer, "wb")
        try:
            with open(variables, "wb", closefd=False) as file:
                file.write(json.dumps(dict(environment)).encode())
            os.lseek(variables, 0, os.SEEK_SET)
            pid = int(self.ask({"order": order}, [variables, requests, log, *descriptors]))
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(variables)
            os.close(requests)
        return ForkedSupervisor(self, pid, stdin)

    def ask(self, request: Mapping[str, object], descriptors: Sequence[int] = ()) -> str:
        """Send one request, once the modules are loaded, and wait for its answer.

        Raises:
            ForkServerError: there is none.
        """
        if len(descriptors) > MAX_DESCRIPTORS:
            raise ForkServerError
        try:
            self._ready = self._ready or self._control.recv(MAX_MESSAGE) == READY
            if not self._ready:
                raise ForkServerError
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            answer = self._control.recv(MAX_MESSAGE)
        except OSError as error:
            raise ForkServerError from error
        if not answer:
            raise ForkServerError
        return answer.decode()
