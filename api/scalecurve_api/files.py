"""Files that are complete or absent after a kill or a power cut, below a folder that no link leads out of.

A file is written beside its place, synced, renamed, and its folder synced. ``Within`` is every path made of a name that
came from elsewhere (a record, a bundle, a cluster): each name is one plain component, each folder is opened relative to
the one before, and a link in the place of any of them is refused.
"""

import errno
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK = 1 << 20
_NOT_OURS = ", which scalecurve never makes here"


class UnsafePathError(OSError):
    """A name that is no plain component of a path, or something else in the place of a file or folder."""


@dataclass(frozen=True)
class Within:
    """A path below ``root``, the folder that the user named and the only one that may be reached through a link."""

    root: Path
    names: tuple[str, ...] = ()

    def __truediv__(self, name: str) -> "Within":
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise UnsafePathError(errno.EINVAL, "not the name of one file or folder", f"{self}/{name!r}")
        return Within(self.root, (*self.names, name))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def path(self) -> Path:
        """For messages, and for processes that the path is passed to."""
        return self.root.joinpath(*self.names)

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def parent(self) -> "Within":
        return Within(self.root, self.names[:-1])

    @contextmanager
    def opened(self) -> Iterator[int]:
        """A handle of this folder.

        Raises:
            UnsafePathError: when it, or a folder on the way to it, is a link or no folder.
        """
        handle = os.open(self.root, _FOLDER)
        try:
            for depth, name in enumerate(self.names, start=1):
                with _explain_errors(Within(self.root, self.names[:depth])):
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def status(self) -> os.stat_result | None:
        """What is there, a link as itself; None if nothing is, or not even the folder."""
        try:
            with self.parent.opened() as folder, _explain_errors(self):
                return os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_folder(self) -> bool:
        """Whether a folder is there, and no link to one."""
        there = self.status()
        return there is not None and stat.S_ISDIR(there.st_mode)

    def entries(self) -> list[str]:
        """Names in this folder, sorted; empty where there is none."""
        try:
            with self.opened() as folder:
                return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def descriptor(self, flags: int) -> int:
        """Open or create this file, which is no link; like open(2)."""
        with self.parent.opened() as folder, _explain_errors(self):
            return os.open(self.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)

    @contextmanager
    def reading(self, limit: int) -> Iterator[BufferedReader]:
        """Open a regular file of at most ``limit`` bytes.

        Raises:
            FileNotFoundError: when it is missing.
            UnsafePathError: when it is a link, a device, a pipe or a folder, or larger.
        """
        descriptor = self.descriptor(os.O_RDONLY | os.O_NONBLOCK)
        there = os.fstat(descriptor)
        regular = stat.S_ISREG(there.st_mode)
        if not regular or there.st_size > limit:
            os.close(descriptor)
            why = f"has {there.st_size} bytes; the limit is {limit}" if regular else "is not a regular file"
            raise UnsafePathError(errno.EFBIG if regular else errno.EINVAL, why, str(self))
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def read(self, limit: int) -> bytes:
        """All bytes of a regular file, under the conditions of ``reading``; one that grows is refused too."""
        with self.reading(limit) as file:
            data = read_within(file, limit)
        if data is None:
            raise UnsafePathError(errno.EFBIG, f"grew beyond the limit of {limit} bytes", str(self))
        return data

    @contextmanager
    def created(self) -> Iterator[BinaryIO]:
        """Write a file that does not exist yet; synced when the block ends."""
        with os.fdopen(self.descriptor(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def replaced(self) -> Iterator[BinaryIO]:
        """Write beside this file, and replace it when the block ends; when it raises, all is as it was."""
        beside = self.parent / f".{self.name}.{os.getpid()}.{threading.get_native_id()}.tmp"
        with self.parent.opened() as folder, _explain_errors(self):
            if beside.status() is not None:  # of an earlier process of this number that was killed
                os.unlink(beside.name, dir_fd=folder)
            try:
                with beside.created() as file:
                    yield file
                os.rename(beside.name, self.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                if beside.status() is not None:
                    os.unlink(beside.name, dir_fd=folder)
                raise
            os.fsync(folder)

    def write(self, data: bytes) -> None:
        """Replace this file in one step."""
        with self.replaced() as file:
            file.write(data)

    def make(self) -> None:
        """Create this folder and those on the way to it, durably, where they are missing."""
        if not self.names:
            missing = [folder for folder in (self.root, *self.root.parents) if not folder.exists()]
            self.root.mkdir(parents=True, exist_ok=True)
            for folder in reversed(missing):
                sync_folder(folder.parent)
            return
        if self.status() is None:
            self.parent.make()
            with self.parent.opened() as above, _explain_errors(self):
                with suppress(FileExistsError):  # made by another thread or process since
                    os.mkdir(self.name, dir_fd=above)
                os.fsync(above)
        with self.opened():
            pass

    def rename(self, target: "Within") -> None:
        """Move a file or folder, durably; an empty folder at ``target`` is replaced. A link is not moved."""
        if (moved := self.status()) is not None and not (stat.S_ISDIR(moved.st_mode) or stat.S_ISREG(moved.st_mode)):
            raise UnsafePathError(errno.EINVAL, f"is {_kind(moved.st_mode)}{_NOT_OURS}", str(self))
        with self.parent.opened() as source, target.parent.opened() as there, _explain_errors(target):
            os.rename(self.name, target.name, src_dir_fd=source, dst_dir_fd=there)
            os.fsync(there)
            os.fsync(source)

    def remove(self) -> None:
        """Remove this file, or folder with its contents, if it exists; links inside go, and not what they point to."""
        there = self.status()
        if there is None:
            return
        with self.parent.opened() as above, _explain_errors(self):
            if stat.S_ISDIR(there.st_mode):
                shutil.rmtree(self.name, dir_fd=above)
            elif stat.S_ISREG(there.st_mode):
                os.unlink(self.name, dir_fd=above)
            else:
                raise UnsafePathError(errno.EINVAL, f"is {_kind(there.st_mode)}{_NOT_OURS}", str(self))


class Readable(Protocol):
    """A binary file, of this machine or of an object store."""

    def read(self, size: int, /) -> bytes: ...


def open_regular(path: Path) -> BufferedReader:
    """Open a file that the user named, or that stands where the user pointed; a link to one is followed.

    Raises:
        UnsafePathError: when it is a pipe, a socket or a device, which may never end; nothing is waited for.
        OSError: when it is missing, a folder, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise UnsafePathError(errno.EINVAL, "is not a regular file", str(path))


def read_regular(path: Path, limit: int = 1 << 24) -> bytes:
    """All bytes of such a file.

    Raises:
        UnsafePathError: when there are more than ``limit``, too.
    """
    with open_regular(path) as file:
        data = read_within(file, limit)
    if data is None:
        raise UnsafePathError(errno.EFBIG, f"is larger than the limit of {limit:,} bytes", str(path))
    return data


def read_within(file: Readable, limit: int) -> bytes | None:
    """All bytes of an open file; None if there are more than ``limit``.

    Memory is taken for what the file has: Python's ``read(limit)`` allocates the whole limit at once.
    """
    data = BytesIO()
    while chunk := file.read(min(_CHUNK, limit + 1 - data.tell())):
        data.write(chunk)
        if data.tell() > limit:
            return None
    return data.getvalue()


def write_atomic(path: Path, data: bytes | str) -> None:
    """Replace ``path`` with ``data`` in one step; text is written as UTF-8.

    Raises:
        OSError: ``path`` is then as it was before.
    """
    with atomic_file(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path`` that replaces it when the block ends, and is removed when it raises."""
    with (Within(path.parent) / path.name).replaced() as file:
        yield file


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(path, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explain_errors(place: Within) -> Iterator[None]:
    """Errors name the whole path, and say what is in the way."""
    try:
        yield
    except UnsafePathError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and (there := _file_status(place)) is not None:
            raise UnsafePathError(error.errno, f"is {_kind(there.st_mode)}{_NOT_OURS}", str(place)) from None
        raise OSError(error.errno, error.strerror, str(place)) from None


def _file_status(place: Within) -> os.stat_result | None:
    try:
        return os.lstat(place.path)
    except OSError:
        return None


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFREG: "a file"}
    return kinds.get(stat.S_IFMT(mode), "a device, pipe or socket")
