"""Locks on devices and bundles: ``flock(2)`` on files shared by the runs of all users.

A lock belongs to an open file. Every supervisor inherits the engine's open files, so a lock is free only
when the engine and all processes of its trials have ended, in any order and for any reason.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalecurve_local.durable import storing
from scalecurve_local.errors import UnavailableError
from scalecurve_local.stop import StopRequestedError
from scalecurve_local.supervision.supervisor import identity

LOCKS_ENV = "SCALECURVE_LOCKS"
_ENDING_S = 60.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as written into its file."""

    pid: int
    identity: str
    bundle: str


@dataclass
class Locks:
    """Locks held until ``release``, and then by the supervisors that inherited ``descriptors``."""

    descriptors: list[int]

    def release(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def device_lock_files(names: Sequence[str]) -> list[Path]:
    """Lock files of devices, in a folder shared by all users of this machine.

    Not under TMPDIR, which differs between runs; ``SCALECURVE_LOCKS`` names another folder.

    Raises:
        StorageError: when the folder cannot be created.
    """
    folder = Path(os.environ.get(LOCKS_ENV) or "/tmp/scalecurve-locks")
    with storing("create the folder of device locks", folder):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o1777)
    return [folder / f"{name.replace(os.sep, '_')}.lock" for name in names]


def take(
    files: Sequence[Path],
    resource: str,
    bundle: Path,
    *,
    wait: bool,
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Locks:
    """Lock every file or none.

    A holder whose engine is dead is waited for in any case, up to a minute: its supervisors are ending processes.

    Raises:
        UnavailableError: when another run holds one of them and ``wait`` is false.
        StopRequestedError: when ``stopped`` while waiting.
        StorageError: when a lock file cannot be opened.
    """
    me = Holder(os.getpid(), identity(os.getpid()), str(bundle))
    last_message, ending_since = "", None
    while True:
        locks, busy = _try_all(sorted(files))
        if busy is None:
            for descriptor in locks.descriptors:
                with suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, json.dumps(vars(me)).encode(), 0)
            return locks
        holder = _read(busy)
        alive = holder is None or identity(holder.pid) == holder.identity
        ending_since = None if alive else ending_since or time.monotonic()
        by = f"another run (process {holder.pid}, bundle {holder.bundle})" if holder else "another run"
        if (alive and not wait) or (ending_since and not wait and time.monotonic() - ending_since > _ENDING_S):
            raise UnavailableError(f"{resource} is in use by {by}; wait for it to end, or stop it")
        message = "waiting for the processes of an earlier run to end"
        if alive:
            message = f"waiting for {resource}, in use by {by}; --no-wait fails instead"
        if message != last_message:
            say(message)
            last_message = message
        if stopped():
            raise StopRequestedError
        time.sleep(_POLL_S)


def _try_all(files: Sequence[Path]) -> tuple[Locks, Path | None]:
    """All locks, or none and the first file that another run holds: holding some while waiting could deadlock."""
    locks = Locks([])
    for file in files:
        descriptor = _open(file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            locks.release()
            return locks, file
        locks.descriptors.append(descriptor)
        if not _still_there(descriptor, file):
            locks.release()
            return _try_all(files)
    return locks, None


def _open(file: Path) -> int:
    """Open a lock file that any user may have created.

    In a sticky folder the kernel may refuse O_CREAT on another user's file (fs.protected_regular): try without first.
    """
    with storing("open the lock", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                return os.open(file, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
                    os.fchmod(descriptor, 0o666)
                    return descriptor


def _still_there(descriptor: int, file: Path) -> bool:
    """Whether the path still names the locked file: a bundle's is removed with its work folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _read(file: Path) -> Holder | None:
    try:
        return Holder(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
