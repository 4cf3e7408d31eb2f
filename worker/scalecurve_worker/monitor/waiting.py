"""How long a thread was ready to run and had no processor, by the kernel's own count."""

import os
from contextlib import suppress

_SCHEDSTAT = "/proc/thread-self/schedstat"


class Waiting:
    """One stretch of the calling thread after another; ``ns`` of the last one, None where the kernel does not count."""

    def __init__(self) -> None:
        self.ns: int | None = None
        self.open = False
        self._file: int | None = None
        self._before: int | None = None

    def begin(self) -> None:
        """Begin a stretch of the calling thread."""
        self.close()
        with suppress(OSError):
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        self._before, self.ns, self.open = self._read(), None, True

    def end(self) -> None:
        """End the stretch, which ended a few microseconds ago."""
        after, self.open = self._read(), False
        if after is not None and self._before is not None:
            self.ns = after - self._before
        self.close()

    def close(self) -> None:
        """Keep no file open."""
        if self._file is not None:
            os.close(self._file)
        self._file, self.open = None, False

    def _read(self) -> int | None:
        if self._file is None:
            return None
        try:
            return int(os.pread(self._file, 128, 0).split()[1])
        except (OSError, IndexError, ValueError):
            return None
