"""The temporary folder of a running attempt: named before it is made, and removed by that name alone.

Its name is read back from an order on disk, which may be somebody else's. So only what an engine of this user could
have made is ever removed: ``scalecurve-`` and twelve hexadecimal digits, directly below the folder for temporary files.
"""

import os
import re
import shutil
import stat
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path

_PREFIX = "scalecurve-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{12}}")


def new_temporary() -> str:
    """The path of a folder that does not exist yet: no kill then leaves an unknown one behind."""
    return str(Path(tempfile.gettempdir(), f"{_PREFIX}{uuid.uuid4().hex[:12]}"))


def remove_temporary(path: str) -> None:
    """Remove the folder with its contents as far as possible; anything that is no engine's folder is left alone."""
    above, _, name = path.rpartition(os.sep)
    if above != tempfile.gettempdir() or not _NAME.fullmatch(name):
        return
    with suppress(OSError):
        handle = os.open(above, os.O_RDONLY | os.O_DIRECTORY)
        try:
            there = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid():
                shutil.rmtree(name, ignore_errors=True, dir_fd=handle)
        finally:
            os.close(handle)
