"""Selects Open MPI's all-reduce algorithm before MPI starts, and reads back what it uses.

Open MPI's component ``coll/tuned`` has the algorithms of the textbooks, by name
(https://docs.open-mpi.org/en/v5.0.x/tuning-apps/coll-tuned.html; ``ompi_info --param coll tuned --level 9``). Other
components take all-reduces over where they have a higher priority (``han`` on several nodes, ``hcoll``), so tuned gets
the highest. It has exceptions of its own for messages with fewer elements than ranks: its ring then is recursive
doubling, its Rabenseifner a linear reduce and broadcast (``coll_base_allreduce.c``).
"""

import ctypes
import os
from pathlib import Path

from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_worker.process.failure import WorkloadError

_MCA = "OMPI_MCA_"
_ALLREDUCE = "coll_tuned_allreduce_algorithm"
# The tree is two collectives that do not overlap, each along a binomial tree.
_CHOSEN = {
    AllReduce.ring: {_ALLREDUCE: "ring"},
    AllReduce.recursive_doubling: {_ALLREDUCE: "recursive_doubling"},
    AllReduce.rabenseifner: {_ALLREDUCE: "rabenseifner"},
    AllReduce.tree: {
        _ALLREDUCE: "nonoverlapping",
        "coll_tuned_reduce_algorithm": "binomial",
        "coll_tuned_bcast_algorithm": "binomial",
    },
    # One rank gets every vector and sends every sum itself; left alone, both would go along trees.
    AllReduce.parameter_server: {
        "coll_tuned_reduce_algorithm": "linear",
        "coll_tuned_bcast_algorithm": "basic_linear",
    },
}
_ALWAYS = {"coll_tuned_use_dynamic_rules": "true", "coll_tuned_priority": "100"}


def settings(algorithm: AllReduce) -> dict[str, str]:
    """Return parameters of Open MPI, by name; none where the choice is left to the library."""
    return {**_ALWAYS, **_CHOSEN[algorithm]} if algorithm in _CHOSEN else {}


def ask_for(algorithm: AllReduce) -> None:
    """Set the environment that Open MPI reads when it starts."""
    os.environ.update({_MCA + name: value for name, value in settings(algorithm).items()})


def confirm(algorithm: AllReduce, vendor: str) -> dict[str, str]:
    """Confirm what the library reports as set, by the same names.

    Raises:
        WorkloadError: the algorithm needs Open MPI, or Open MPI reports another value.
    """
    requested = settings(algorithm)
    if not requested:
        return {}
    if vendor != "Open MPI":
        raise WorkloadError(
            f"workload.allReduce: {algorithm.value} needs Open MPI's coll/tuned, but this MPI is {vendor}; "
            "allowed here: auto"
        )
    tool = _Tool()
    for name, value in requested.items():
        if (actual := tool.read(name)) != value:
            raise WorkloadError(
                f"workload.allReduce: {algorithm.value} was requested by {_MCA}{name}={value}, but Open MPI reports "
                f"{actual or 'no such parameter'}"
            )
    return requested


class _Tool:
    """MPI's tool interface (MPI 4.1, chapter 15), which mpi4py omits: control variables of the library in use."""

    def __init__(self) -> None:
        self._mpi = ctypes.CDLL(_find_mpi_library())
        provided = ctypes.c_int()
        self._mpi.MPI_T_init_thread(0, ctypes.byref(provided))

    def read(self, name: str) -> str | None:
        """A whole number, or the name it stands for; None where there is no such variable."""
        index, handle, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        if self._mpi.MPI_T_cvar_get_index(name.encode(), ctypes.byref(index)):
            return None
        if self._mpi.MPI_T_cvar_handle_alloc(index, None, ctypes.byref(handle), ctypes.byref(count)):
            return None
        # A boolean is written as one byte only.
        value = ctypes.c_int(0)
        self._mpi.MPI_T_cvar_read(handle, ctypes.byref(value))
        self._mpi.MPI_T_cvar_handle_free(ctypes.byref(handle))
        return self._names(index).get(value.value, str(value.value))

    def _names(self, index: ctypes.c_int) -> dict[int, str]:
        kind, enumeration = ctypes.c_void_p(), ctypes.c_void_p()
        name_length, verbosity, text_length, binding, scope = (ctypes.byref(ctypes.c_int(0)) for _ in range(5))
        self._mpi.MPI_T_cvar_get_info(
            index, None, name_length, verbosity, ctypes.byref(kind), ctypes.byref(enumeration), None, text_length,
            binding, scope,
        )  # fmt: skip
        items, length = ctypes.c_int(0), ctypes.c_int(0)
        if not enumeration or self._mpi.MPI_T_enum_get_info(
            enumeration, ctypes.byref(items), None, ctypes.byref(length)
        ):
            return {}
        names = {}
        for item in range(items.value):
            value, text, room = ctypes.c_int(), ctypes.create_string_buffer(128), ctypes.c_int(128)
            self._mpi.MPI_T_enum_get_item(enumeration, item, ctypes.byref(value), text, ctypes.byref(room))
            names[value.value] = text.value.decode()
        return names


def _find_mpi_library() -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if Path(path).name.startswith("libmpi.so"):
            return path
    raise WorkloadError("workload.allReduce: cannot read Open MPI's settings: no libmpi.so is loaded")
