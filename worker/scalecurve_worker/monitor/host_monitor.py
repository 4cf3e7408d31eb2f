"""Monitors the host during windows: other load on this process's cores and devices, clocks, and energy."""

from collections import Counter
from collections.abc import Sequence

from scalecurve_api.record.rank import DeviceSamples, RankTopology, Usage
from scalecurve_worker.monitor.cpu_load import CpuMeter, foreign_share, own_share, stolen_share
from scalecurve_worker.monitor.nvml import open_monitor
from scalecurve_worker.rendezvous.communicator import Communicator


class HostMonitor:
    """Samples load, clocks and energy during windows; ``topologies`` are those of the workers it drives.

    Lists have an entry for every worker; None where there is no GPU, or none that answers.
    """

    def __init__(self, topologies: Sequence[RankTopology]) -> None:
        self._host = topologies[0].host
        self._cores = sorted({core for worker in topologies for core in worker.cores})
        self._devices = [worker.device for worker in topologies]
        self._cpu = CpuMeter(self._cores)
        self._monitors = [open_monitor(device) if device.startswith("GPU-") else None for device in self._devices]
        self._opened_mj: list[int | None] = []

    def open(self) -> None:
        self._cpu.begin()
        self._opened_mj = self._energy_mj()

    def watch(self) -> None:
        for monitor in filter(None, self._monitors):
            monitor.resume()

    def rest(self) -> None:
        for monitor in filter(None, self._monitors):
            monitor.pause()

    def energy_consumption_mj(self) -> list[int | None]:
        pairs = zip(self._opened_mj, self._energy_mj(), strict=True)
        return [None if before is None or now is None else now - before for before, now in pairs]

    def close(self) -> None:
        self._cpu.end()

    def own_load(self) -> float | None:
        """Share of its cores that this process used between the first and the last window."""
        used = self._cpu.used()
        return own_share(used, len(self._cores)) if used is not None else None

    def usage(self) -> list[list[Usage]]:
        """Return the usage of each worker's device over the windows, or of this process's cores without one."""
        own = self._cpu.usage()
        return [monitor.usage() if monitor else own for monitor in self._monitors]

    def found(self, ranks: Communicator) -> tuple[float | None, float | None, list[DeviceSamples | None]]:
        """Return the shares of the cores that other processes and the hypervisor took, and samples of every device.

        Ranks that share the cores are not others. Every rank calls it, once. A share is None where it cannot be read.
        """
        used = self._cpu.used()
        mine = [self._host, self._cores, self._devices, used.own_s if used else None]
        beside = [each for each in ranks.all_gather(mine) if each[0] == self._host]
        load = stolen = None
        if used is not None:
            sharers = [own or 0.0 for _, cores, _, own in beside if not set(cores).isdisjoint(self._cores)]
            load = foreign_share(used, len(self._cores), sum(sharers))
            stolen = stolen_share(used, len(self._cores))
        ranks_on = Counter(device for each in beside for device in each[2])
        samples = [
            monitor.result(ranks_on[device]) if monitor else None
            for monitor, device in zip(self._monitors, self._devices, strict=True)
        ]
        return load, stolen, samples

    def _energy_mj(self) -> list[int | None]:
        return [monitor.energy_mj() if monitor else None for monitor in self._monitors]
