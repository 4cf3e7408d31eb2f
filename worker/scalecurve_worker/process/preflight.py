"""Preflight checks of a pod; each failure is one line that says what to do."""

import errno
import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from scalecurve_api.contract import HOSTFILE_ENV

_DEFAULT_SHARED_MIB = 64  # what container runtimes give


class PreflightError(RuntimeError):
    """A pod that cannot begin where it is; the message says what is missing, and what to do."""


def check_hostfile(hostfile: Path, workers: int) -> None:
    """Open MPI 5 without a host file runs every rank in the launcher, and succeeds.

    Raises:
        PreflightError: no such file, or one that has no room for the workers.
    """
    try:
        slots = sum(map(_slots, hostfile.read_text().splitlines()))
    except OSError as error:
        raise PreflightError(
            f"no host file {hostfile} ({error.strerror}): mpi-operator mounts it in the launcher of an MPIJob, "
            f"and {HOSTFILE_ENV} can set another"
        ) from None
    if slots < workers:
        raise PreflightError(
            f"{hostfile} has {slots} slots for {workers} workers: slotsPerWorker times the number of worker pods "
            "must be the worker count"
        )


def _slots(line: str) -> int:
    """Of one host: ``host slots=2`` (Open MPI), ``host:2`` (the others), or one."""
    words = line.partition("#")[0].split()
    if not words:
        return 0
    match = re.search(r"\bslots\s*=\s*(\d+)", line) or re.search(r":(\d+)$", words[0])
    return int(match[1]) if match else 1


def check_port(port: int, use: str) -> None:
    """Fail now, where the program that listens later would say less."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            where = ", is in use by another process of this pod, or of this node with hostNetwork"
            why = where if error.errno == errno.EADDRINUSE else f": {error.strerror}"
            raise PreflightError(f"port {port}, {use}{why}") from None


def check_user(program: str) -> None:
    """Check that the user has an entry in /etc/passwd: ssh's programs need a name and a home.

    Raises:
        PreflightError: the user has none.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise PreflightError(
            f"this image has no user with ID {os.getuid()}; {program} needs an entry for it in /etc/passwd"
        ) from None


def shared_memory(path: Path = Path("/dev/shm")) -> str:
    """Return what is wrong with shared memory, or "". Only some programs need it, so nothing fails here."""
    try:
        system = os.statvfs(path)
    except OSError as error:
        return (
            f"no {path} ({error.strerror}): NCCL, Open MPI and data loaders need it; mount an emptyDir of medium Memory"
        )
    size_mib = system.f_blocks * system.f_frsize / (1 << 20)
    if size_mib > _DEFAULT_SHARED_MIB:
        return ""
    return (
        f"{path} has {int(size_mib)} MiB: NCCL and data loaders crash with a bus error when it is full; "
        "mount an emptyDir of medium Memory (spec.pod.sharedMemory limits it)"
    )


def world_size_mismatch(expected: int, joined: int, environment: Mapping[str, str]) -> str:
    """Return what is wrong with the number of workers that met, or an empty string. The caller gives the verdict."""
    if joined == expected:
        return ""
    if joined != 1:
        return f"world size is {joined}, expected {expected}"
    launchers = [name for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE") if environment.get(name)]
    variables = ", ".join(f"{name}={environment[name]}" for name in launchers) or "no launcher's variable is set"
    return f"world size is 1, expected {expected}; {variables}: each worker runs alone, as rank 0"
