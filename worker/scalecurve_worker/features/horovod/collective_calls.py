"""What a program hands Horovod, whose sums no process group of torch knows of."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor

from scalecurve_worker.torch.collective_calls import CollectiveCall, Tell

_MODULE = "horovod.torch.mpi_ops"


def watch_horovod(tell: Tell) -> Callable[[], None]:
    """Tell of every call; all of them pass one module, which stands in a variable of another. Returns what ends it."""
    if _MODULE not in sys.modules:
        return lambda: None
    operations: Any = importlib.import_module(_MODULE)
    library = operations.mpi_lib
    operations.mpi_lib = _WatchedLibrary(library, tell)
    return lambda: setattr(operations, "mpi_lib", library)


class _WatchedLibrary:
    """Horovod's library, which tells of every operation and its tensor."""

    def __init__(self, library: Any, tell: Tell) -> None:
        self._library = library
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        if "_async_torch_" not in name:
            return function
        kind = name.removeprefix("horovod_torch_").partition("_async")[0]

        def watched(*arguments: Any) -> Any:
            handed = arguments[0] if isinstance(arguments[0], list) else arguments[:1]
            for tensor in handed:
                if isinstance(tensor, Tensor):
                    self._tell(CollectiveCall(f"horovod:{kind}", tensor.numel() * tensor.element_size()))
            return function(*arguments)

        return watched
