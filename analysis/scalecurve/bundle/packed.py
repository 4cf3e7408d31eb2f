"""Read a packed bundle: a zip of its files and ``SHA256SUMS``, written by ``pack``. Nothing in it is trusted.

The archive is checked once when it is opened (names, sizes, that the digests list exactly its files); the sha256 of
each file is checked when it is read. So opening costs one read of the directory, however many steps were recorded.
"""

import hashlib
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scalecurve.bundle.problem import BundleError, FileError
from scalecurve_api.files import open_regular

SUMS_FILE = "SHA256SUMS"
"""Digests in the form of ``sha256sum``, so that ``sha256sum -c`` checks an archive that any unzip has unpacked."""
CHUNK = 1 << 20
_MAX_SUMS_BYTES = 64 << 20
_MAX_DEFLATE_RATIO = 1032
_MAGIC = b"PK\x03\x04"
_SUM = re.compile(r"([0-9a-f]{64})  (\S.*)")
ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError),
    *(ValueError, OverflowError, RuntimeError),
)
"""What zipfile raises for bytes that are no sound zip; RuntimeError for an encrypted file."""


class PackedFiles:
    """The files of a packed bundle, read in place."""

    def __init__(self, path: Path) -> None:
        """Open and check the archive.

        Raises BundleError when it is truncated, damaged, unsafe, or not written by ``scalecurve pack``.
        """
        self.path = path
        try:
            with open_regular(path):
                self._archive = zipfile.ZipFile(path)
        except OSError as error:
            raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
        except ZIP_ERRORS as error:
            raise _damage_error(path, "truncated or damaged" if is_packed(path) else "not a packed bundle") from error
        self._infos = self._check_entries()
        try:
            self.digests = self._sums()
        except FileError as error:
            raise _damage_error(path, f"{SUMS_FILE}: {error}") from error

    def read(self, name: str, limit: int) -> bytes:
        info = self._infos.get(name)
        if info is None:
            raise FileError("missing")
        if info.file_size > limit:
            raise FileError(f"{info.file_size} bytes; the limit is {limit}")
        return b"".join(self.chunks(name))

    def entries(self, folder: str) -> dict[str, bool]:
        above = f"{folder}/" if folder else ""
        inside = (name[len(above) :] for name in self.digests if name.startswith(above))
        return {name.partition("/")[0]: "/" in name for name in sorted(inside)}

    def size(self, name: str) -> int:
        return self._infos[name].file_size if name in self._infos else 0

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of a file in chunks; the last one comes only if the sha256 of all is right.

        Raises FileError when the file is damaged.
        """
        sha256, piece = hashlib.sha256(), b""
        try:
            with self._archive.open(self._infos[name]) as file:
                while following := file.read(CHUNK):
                    yield piece
                    piece = following
                    sha256.update(piece)
        except OSError as error:
            raise FileError(f"cannot be read: {error.strerror}") from error
        except ZIP_ERRORS as error:
            raise FileError("damaged in the packed file; copy it again") from error
        if name != SUMS_FILE and sha256.hexdigest() != self.digests[name]:
            raise FileError(f"does not match {SUMS_FILE}: changed or damaged after it was packed")
        yield piece

    def _check_entries(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._archive.infolist()
        files = [info for info in infos if not info.is_dir()]
        if any(_is_bomb(info) for info in infos) or sum(i.compress_size for i in infos) > self.path.stat().st_size:
            raise _damage_error(self.path, "declares more data than it can hold; not unpacked")
        for info in infos:
            if not is_safe(info.filename.removesuffix("/")):
                raise _damage_error(self.path, f"contains the unsafe name {info.filename[:80]!r}")
        by_name = {info.filename: info for info in files}
        parents = {str(parent) for name in by_name for parent in PurePosixPath(name).parents}
        if len(by_name) != len(files) or parents & by_name.keys():
            raise _damage_error(self.path, "contains two files of the same name")
        if SUMS_FILE not in by_name:
            raise BundleError(
                f"{self.path}: no {SUMS_FILE}, so not written by `scalecurve pack`; unzip it and use the folder"
            )
        return by_name

    def _sums(self) -> dict[str, str]:
        try:
            text = self.read(SUMS_FILE, _MAX_SUMS_BYTES).decode()
        except UnicodeDecodeError as error:
            raise FileError("not text") from error
        lines = [_SUM.fullmatch(line) for line in text.removesuffix("\n").split("\n")] if text else []
        sums = {line[2]: line[1] for line in lines if line}
        if len(sums) != len(lines):
            raise FileError("contains a line that is not a file's digest, or two for one file")
        if differing := sorted(sums.keys() ^ (self._infos.keys() - {SUMS_FILE})):
            where = "not in the archive" if differing[0] in sums else "not listed"
            raise FileError(f"{differing[0]} is {where}")
        return sums


def is_packed(path: Path) -> bool:
    """Whether a path is a file with a zip signature."""
    try:
        with open_regular(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def is_safe(name: str) -> bool:
    """Whether a name stays inside the folder it is unpacked into and fits on a line of ``SHA256SUMS``."""
    parts = name.split("/")
    return "\\" not in name and name.isprintable() and not {"", ".", ".."} & set(parts) and name == name.strip()


def _is_bomb(info: zipfile.ZipInfo) -> bool:
    """Deflate never shrinks data more than 1,032-fold; other methods could, and ``pack`` does not use them."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return True
    return info.file_size > _MAX_DEFLATE_RATIO * (info.compress_size + 1)


def _damage_error(path: Path, why: str) -> BundleError:
    return BundleError(f"{path}: {why}; copy it again from its source")
