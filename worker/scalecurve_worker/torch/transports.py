"""What carried this rank's collectives, for its record; every rank calls, after its timed windows."""

from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed import distributed_c10d

from scalecurve_api.record.transport import Transport
from scalecurve_worker.monitor.peer_links import fastest_between, place_of
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.rendezvous.torch_store import initialised
from scalecurve_worker.torch import nccl_log
from scalecurve_worker.torch.gloo_sockets import connections, of_gloo


def transport_of(communicator: Communicator, device: str, backend: str | None) -> Transport | None:
    """By the library's own word, or by this process's sockets; None of one process, and where neither tells.

    ``device`` is the GPU's UUID.
    """
    if communicator.world == 1 or not initialised():
        return None
    if backend == "gloo":
        return of_gloo(communicator.rank, communicator.all_gather(connections(_store_port())))
    if backend != "nccl":
        return None
    seen = nccl_log.transport(communicator.rank)
    places = communicator.all_gather(place_of(device))
    if seen is None:
        return None
    ways = {int(peer): fastest_between(places[communicator.rank], places[int(peer)]) for peer in seen.peers}
    return seen.model_copy(update={"visible": {str(peer): way for peer, way in ways.items() if way is not None}})


def _store_port() -> int | None:
    store = distributed_c10d._get_default_store()
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store.port if isinstance(store, TCPStore) else None
