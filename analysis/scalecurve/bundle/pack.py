"""Pack a bundle into one file, and unpack it: a zip of its experiment, ledger, predictions, ``trials/``, and digests.

The same bundle gives the same bytes: files in the order of their names, no times, no owners. What else lies in the
folder (a report, an engine's scratch files) is not packed: a report can be written again from the packed file.
"""

import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scalecurve.bundle.companions import companion_files
from scalecurve.bundle.open import files_of
from scalecurve.bundle.packed import CHUNK, SUMS_FILE, PackedFiles, is_packed, is_safe
from scalecurve.bundle.problem import BundleError, FileError
from scalecurve.bundle.record_file import EXPERIMENT_FILE, RECORD_FILE
from scalecurve.bundle.trial import TRIALS_FOLDER
from scalecurve_api.files import atomic_file
from scalecurve_api.record.ledger import LEDGER_FILE, PREDICTIONS_FOLDER

Progress = Callable[[int, int], None]  # bytes done, bytes in total
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_REGULAR_FILE = 0o100644


@dataclass(frozen=True)
class PackedBundle:
    """What a packed file holds, and the sha256 of the file itself."""

    path: Path
    records: int
    files: int
    unpacked_bytes: int
    packed_bytes: int
    sha256: str


def pack(
    bundle: str | os.PathLike[str], file: str | os.PathLike[str], progress: Progress | None = None
) -> PackedBundle:
    """Write a bundle's records into one file, which every verb opens.

    Args:
        bundle: Folder of the bundle.
        file: File to write.
        progress: Called with the number of bytes read and of all of them.

    Returns:
        What was written.

    Raises:
        BundleError: when `bundle` is no bundle's folder, `file` exists, or a file in the bundle cannot be packed.
        OSError: when a file cannot be read or written.
    """
    root, target = Path(bundle), Path(file)
    if is_packed(root):
        raise BundleError(f"{root}: already packed")
    files_of(root)
    _refuse_existing(target)
    names = sorted(_names(root))
    if not names:
        raise BundleError(f"{root}: no files to pack")
    total = sum((root / name).stat().st_size for name in names)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(target) as building, zipfile.ZipFile(building, "w", zipfile.ZIP_DEFLATED) as archive:
        sums, done = [], 0
        for name in names:
            sha256 = hashlib.sha256()
            with (root / name).open("rb") as source, archive.open(_info(name, root / name), "w") as entry:
                while piece := source.read(CHUNK):
                    sha256.update(piece)
                    entry.write(piece)
                    done += len(piece)
                    if progress:
                        progress(done, total)
            sums.append(f"{sha256.hexdigest()}  {name}\n")
        archive.writestr(_info(SUMS_FILE), "".join(sums))
    with target.open("rb") as packed:
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    records = sum(name.endswith(f"/{RECORD_FILE}") for name in names)
    return PackedBundle(target, records, len(names), total, target.stat().st_size, digest)


def unpack(file: str | os.PathLike[str], folder: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """Write the files of a packed bundle into a new folder, each verified; all of them or nothing.

    Args:
        file: File that `pack` wrote.
        folder: Folder to make.
        progress: Called with the number of bytes written and of all of them.

    Returns:
        The folder.

    Raises:
        BundleError: when `file` is no packed bundle or is damaged, or `folder` exists.
        OSError: when the folder cannot be written.
    """
    source, target = Path(file), Path(folder)
    if not is_packed(source):
        raise BundleError(f"{source}: not a packed bundle; expected a file written by `scalecurve pack`")
    packed = PackedFiles(source)
    _refuse_existing(target)
    total, done = sum(map(packed.size, packed.digests)), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    if total > (free := shutil.disk_usage(target.parent).free):
        raise BundleError(f"{source}: unpacks to {total:,} bytes, and {target.parent} has {free:,} free")
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as temporary:
        building = Path(temporary, target.name)
        building.mkdir()
        for name in packed.digests:
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as out:
                try:
                    for piece in packed.chunks(name):
                        out.write(piece)
                        done += len(piece)
                        if progress:
                            progress(done, total)
                except FileError as error:
                    raise BundleError(f"{source}: {name}: {error}") from error
        os.rename(building, target)
    return target


def _names(root: Path) -> Iterator[str]:
    """The files of a bundle by relative path; hidden ones belong to an engine."""
    for folder in (root / TRIALS_FOLDER, root / PREDICTIONS_FOLDER):
        if folder.is_symlink():
            raise BundleError(f"{folder}: not a folder, but a link, which a packed bundle cannot hold")
    folders = [path for name in (PREDICTIONS_FOLDER, TRIALS_FOLDER) for path in sorted((root / name).rglob("*"))]
    single = dict.fromkeys([EXPERIMENT_FILE, LEDGER_FILE, *(file.name for file in companion_files())])
    for path in [*(root / name for name in single), *folders]:
        name = path.relative_to(root)
        if any(part.startswith(".") for part in name.parts) or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise BundleError(f"{path}: not a regular file, which a packed bundle cannot hold")
        if not is_safe(str(name)):
            raise BundleError(f"{root}: the name {str(name)!r} cannot be packed; rename the file")
        if path.exists():
            yield str(name)


def _info(name: str, path: Path | None = None) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _NO_TIME)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, _REGULAR_FILE << 16
    info.create_system = 3
    info.file_size = path.stat().st_size if path else 0
    return info


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise BundleError(f"{target} already exists; choose another with --out")
