"""Records in an object store, through fsspec (the extra ``objectstore``) and the store's own package.

The folder's URL is the operator's setting, and for who reads the variable SCALECURVE_RECORDS: a trial's status has only
the name below it, so nobody is led to another place by what stands in a cluster.
"""

import os
import posixpath
from collections.abc import Mapping
from typing import Any

from scalecurve_api.files import read_within
from scalecurve_kube.errors import ApiStatusError, ClusterError

RECORDS_ENV = "SCALECURVE_RECORDS"
MAX_OBJECT_BYTES = 64 << 20


class ObjectStoreError(ApiStatusError):
    """The object store could not be read or written; the message names what and why."""

    def __init__(self, message: str) -> None:
        ClusterError.__init__(self, message)
        self.status, self.reason, self.message = 503, "ObjectStore", message


def write(folder: str, name: str, data: bytes) -> None:
    """Keep an object; writing the same one again changes nothing.

    Raises:
        ObjectStoreError: whatever goes wrong.
    """
    try:
        files, root = _open(folder)
        path = posixpath.join(root, name)
        files.makedirs(posixpath.dirname(path), exist_ok=True)
        files.pipe_file(path, data)
    except Exception as error:
        raise _store_error("write", folder, name, error) from error


def read(name: str, environment: Mapping[str, str] = os.environ) -> bytes:
    """An object below the folder that the reader trusts.

    Raises:
        ObjectStoreError: no folder is set, the object is gone, or it is too large to be a record.
    """
    folder = environment.get(RECORDS_ENV, "")
    if not folder:
        raise ObjectStoreError(
            f"the record is {name} in the operator's object store: set {RECORDS_ENV} to its recordsUrl"
        )
    try:
        files, root = _open(folder)
        with files.open(posixpath.join(root, name), "rb") as file:
            data = read_within(file, MAX_OBJECT_BYTES)
    except Exception as error:
        raise _store_error("read", folder, name, error) from error
    if data is None:
        raise ObjectStoreError(f"{name} in {folder} has more than {MAX_OBJECT_BYTES} bytes: no record")
    return data


def check(folder: str) -> None:
    """Raise ObjectStoreError where no installed package knows such a URL."""
    try:
        _open(folder)
    except Exception as error:
        raise _store_error("open", folder, "", error) from error


def _open(folder: str) -> tuple[Any, str]:
    if "::" in folder or "://" not in folder:
        raise ValueError("expected one URL, such as s3://bucket/folder")
    from fsspec.core import url_to_fs

    files, root = url_to_fs(folder)
    return files, str(root)


def _store_error(verb: str, folder: str, name: str, error: Exception) -> ObjectStoreError:
    where = posixpath.join(folder, name)
    return ObjectStoreError(f"cannot {verb} {where}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
