"""Joins torch.distributed under any launcher: torchrun, mpirun, plain processes, or none."""

import os
import socket
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from scalecurve_api.contract import PODS_ENV
from scalecurve_api.programs.all_reduce import AllReduce
from scalecurve_api.programs.workload import Backend
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.rendezvous.communicator import find_communicator
from scalecurve_worker.torch import nccl_log
from scalecurve_worker.torch.device import nccl_version

_TIMEOUT = timedelta(minutes=10)
# Before 2.24 NCCL_ALGO named an algorithm for every collective; a bare Tree now makes the others fail.
_PER_FUNCTION = (2, 24)


def choose_backend(backend: Backend, device: torch.device) -> str:
    """Choose ``nccl`` on GPUs and ``gloo`` on CPUs, unless one is named."""
    if backend is Backend.auto:
        return "nccl" if device.type == "cuda" else "gloo"
    if backend is Backend.nccl and device.type != "cuda":
        raise WorkloadError("workload.backend: nccl needs a GPU, but this rank drives a CPU; expected gloo, auto")
    if backend is Backend.mpi:
        raise WorkloadError("workload.backend: mpi is not in this build of torch; expected nccl, gloo, auto")
    return backend.value


def ask_for_algorithm(algorithm: AllReduce, backend: str) -> None:
    """Set ``NCCL_ALGO``; it is read when the first communicator is made."""
    if algorithm not in (AllReduce.ring, AllReduce.tree) or backend != "nccl":
        return
    per_function = nccl_version() >= _PER_FUNCTION
    os.environ["NCCL_ALGO"] = f"allreduce:{algorithm.value}" if per_function else algorithm.value.capitalize()


def join_group(backend: str, device: torch.device) -> None:
    """Initialize torch.distributed, with one process too."""
    identity = identify()
    rank, world = identity.rank, identity.world
    store: Store | None = HashStore() if world == 1 else None
    if world > 1 and "MASTER_ADDR" not in os.environ:
        store = _meet(rank, world)
    device_id = device if backend == "nccl" else None
    with nccl_log.logged() if backend == "nccl" else nullcontext():
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world, timeout=_TIMEOUT, device_id=device_id
        )


def leave_group() -> None:
    """Take torch.distributed down, where it is up."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _meet(rank: int, world: int) -> Store:
    """A store on rank 0, on a port of the system's choice, made known through MPI or the shared folder."""
    communicator = find_communicator(identify(), out_folder())
    host = own_address()
    store = TCPStore(host, 0, world, is_master=True, wait_for_workers=False) if rank == 0 else None
    address = communicator.all_gather([host, store.port] if store else None)[0]
    return store or TCPStore(address[0], address[1], world, is_master=False, wait_for_workers=False)


def own_address() -> str:
    """Return this host's name; a pod's address, for other pods do not know its name alone."""
    name = socket.gethostname()
    return socket.gethostbyname(name) if os.environ.get(PODS_ENV) else name
