"""The files of a zip or tar archive of a results repository, read in place. Nothing in it is trusted or unpacked."""

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from scalecurve.bundle.packed import ZIP_ERRORS, is_packed
from scalecurve.corpus.results_member import MOST_MEMBER_BYTES, ResultFile, Selection, root_folder
from scalecurve.corpus.schema import CorpusError

_MAX_DEFLATE_RATIO = 1032
_MAX_TAR_BYTES = 4 << 30
_GZIP = b"\x1f\x8b"
_TAR_ERRORS = (tarfile.TarError, zlib.error, EOFError, ValueError, OverflowError)


def is_archive(path: Path) -> bool:
    """Whether a file begins like a zip, a tar or a gzip archive."""
    return is_packed(path) or _begins(path)[:2] == _GZIP or _begins(path)[257:262] == b"ustar"


def archive_revision(path: Path) -> str:
    """The commit that hosting services write into the archives they make; empty if there is none."""
    try:
        if is_packed(path):
            with zipfile.ZipFile(path) as archive:
                comment = archive.comment.decode("ascii", "replace")
        else:
            with _opened(path) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
                comment = tar.pax_headers.get("comment", "")
    except (OSError, *ZIP_ERRORS, *_TAR_ERRORS):
        return ""
    return f"commit {comment}" if len(comment) == 40 and set(comment) <= set("0123456789abcdef") else ""


def archive_members(path: Path, selection: Selection) -> Iterator[ResultFile]:
    """The systems, results and license in an archive.

    Args:
        path: A file for which ``is_archive`` holds.
        selection: Counts what is read, and notes what is skipped.

    Raises:
        CorpusError: the archive is damaged, or declares or holds more than the limits.
    """
    return _zip_members(path, selection) if is_packed(path) else _tar_members(path, selection)


def _begins(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(512)
    except OSError:
        return b""


def _zip_members(path: Path, selection: Selection) -> Iterator[ResultFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            if sum(info.compress_size for info in infos) > path.stat().st_size:
                raise CorpusError(f"{path}: declares more data than it can hold; not read")
            inside = root_folder([info.filename for info in infos])
            for info in infos:
                if (below := selection.wanted(info.filename, inside)) is None:
                    continue
                if why := _refused(info):
                    selection.skip(below, why)
                elif member := selection.read(below, info.file_size, partial(archive.read, info)):
                    yield member
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from error
    except ZIP_ERRORS as error:
        if isinstance(error, CorpusError):
            raise
        raise CorpusError(f"{path}: truncated or damaged; copy it again from its source") from error


def _refused(info: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a link"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compressed by method {info.compress_type}; expected deflate"
    if info.file_size > _MAX_DEFLATE_RATIO * (info.compress_size + 1):
        return "declares more data than it can hold"
    return ""


def _tar_members(path: Path, selection: Selection) -> Iterator[ResultFile]:
    inside: str | None = None
    try:
        with _opened(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            while (info := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # it would keep every header that it has read
                if inside is None:
                    inside = info.name if info.isdir() else ""
                if (below := selection.wanted(info.name, inside or "")) is None:
                    continue
                if not info.isreg():
                    selection.skip(below, "a link or a device")
                elif member := selection.read(below, info.size, partial(_content, archive, info)):
                    yield member
    except _TAR_ERRORS as error:
        if isinstance(error, CorpusError):
            raise
        raise CorpusError(f"{path}: truncated or damaged; copy it again from its source") from error
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror or 'not a gzip file'}") from error


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    data = b"" if file is None else file.read()
    if len(data) != info.size:
        raise EOFError
    return data


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, _Bounded(gzip.open(path) if _begins(path)[:2] == _GZIP else path.open("rb"), path))


class _Bounded(io.RawIOBase):
    """What tarfile may read of a stream: no piece, so no header, larger than a member may be, and not without end."""

    def __init__(self, stream: BinaryIO | gzip.GzipFile, path: Path) -> None:
        self._stream, self._path = stream, path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_MEMBER_BYTES + tarfile.BLOCKSIZE:
            raise CorpusError(f"{self._path}: a header of {size} bytes; the limit is {MOST_MEMBER_BYTES}")
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check(offset)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self, offset: int) -> None:
        if offset > _MAX_TAR_BYTES:
            raise CorpusError(f"{self._path}: more than {_MAX_TAR_BYTES >> 30} GiB unpacked; not read further")
