"""A rank's session in its trial: its identity, its peers, the trial's spec, and what it writes."""

import os
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from pydantic import ConfigDict

from scalecurve_api.contract import METRICS_LINGER_ENV, PODS_ENV
from scalecurve_api.record.journal import StepRow
from scalecurve_api.record.proof import Proof
from scalecurve_api.record.rank import RankRecord, RankTopology, WindowKind
from scalecurve_api.spec.measure import Measure
from scalecurve_api.text import count
from scalecurve_worker.monitor.metrics import Metrics, open_metrics
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.preflight import world_size_mismatch
from scalecurve_worker.process.topology import environment, topology, versions
from scalecurve_worker.process.trial_spec import out_folder, read_trial
from scalecurve_worker.record.recorder import Recorder, publish
from scalecurve_worker.rendezvous.communicator import Communicator, find_communicator
from scalecurve_worker.steps.timing import UnixTime


class Facts(RankRecord):
    """What a program notes about itself and what was measured: a rank's record with fields to set."""

    model_config = ConfigDict(frozen=False)


class LocalWorker(NamedTuple):
    """A rank of which this process keeps the record: its own, or one replica of several that it drives."""

    topology: RankTopology
    recorder: Recorder
    metrics: Metrics | None


class Session:
    """One process of one trial, joined; without an engine there is no trial, and nothing is written unless asked.

    A process is one rank. A framework that drives several workers from one process (``MirroredStrategy``,
    ``DataParallel``) keeps a record for each of them, with the one process's number.
    """

    before_join: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    """Called before a program joins: hooks that measure it without its help then leave that to it."""

    def __init__(
        self,
        device: str | None = None,
        device_name: str | None = None,
        *,
        communicator: Communicator | None = None,
        topologies: Sequence[RankTopology] | None = None,
        world: int | None = None,
    ) -> None:
        """Join the other ranks, and say so in the ready files.

        ``communicator`` is one that the program has joined already. ``topologies`` are the workers that this process
        drives, where these are several; ``world`` is then how many workers there are over all processes.

        Raises:
            WorkloadError: a trial that cannot be read.
            CommunicatorError: ranks that cannot meet.
            MetricsError: a metrics port that cannot be had.
        """
        type(self).before_join()
        self.unix = UnixTime()
        started_ns = self.unix.now()
        self.trial = read_trial()
        self.out = out_folder()
        launched = identify()
        self.communicator = communicator or find_communicator(launched, self.out)
        # Files are named by the launcher's rank: a program that never joined its group is rank 0 of 1 to itself, and
        # its ranks would write over one another. The world size is the one that was really joined.
        rank = launched.rank if launched.world > 1 else self.communicator.rank
        self.identity = RankIdentity(rank, world or self.communicator.world, launched.local_rank)
        expected = self.trial.point.workers if self.trial and rank == 0 else self.identity.world
        if mismatch := world_size_mismatch(expected, self.identity.world, os.environ):
            # No error: the run is measured, recorded, and found Invalid for it.
            print(f"scalecurve: {mismatch}", file=sys.stderr, flush=True)
        if topologies is None:
            topologies = [topology(self.identity, device, device_name)]
        # A port's place is the worker's among those whose metrics are served here: not its own node's, for a chief's.
        self.workers = [
            LocalWorker(each, Recorder(self.out, each.rank), open_metrics(self.trial, each.rank, i or each.local_rank))
            for i, each in enumerate(topologies)
        ]
        self.topology = self.workers[0].topology
        self.recorder = self.workers[0].recorder
        self._metrics = [worker.metrics for worker in self.workers if worker.metrics]
        self.facts = Facts(
            trial=self.trial.name if self.trial else "unnamed",
            world=self.identity.world,
            topology=self.topology,
            backend=self.communicator.backend,
            started_ns=started_ns,
            ended_ns=0,
        )
        for worker in self.workers:
            worker.recorder.ready(worker.topology)

    @property
    def measure(self) -> Measure:
        return self.trial.measure if self.trial else Measure()

    @property
    def seed(self) -> int | None:
        """Of the turns of this trial, the same on every rank; None without an engine, or where steps are not alike."""
        trial = self.trial
        periodic = trial is not None and trial.workload.exchange_every
        return None if trial is None or periodic else zlib.crc32(trial.name.encode())

    def append(self, rows: Iterable[StepRow]) -> None:
        kept = list(rows)
        for worker in self.workers:
            worker.recorder.append(kept)

    def show_steps(self, seconds: Sequence[float], samples: int) -> None:
        """Show finished steps of a train window; ``samples`` are those of one worker."""
        for metrics in self._metrics:
            metrics.observe(seconds, samples)

    def show_window(self, samples: int, wall_ns: int) -> None:
        """Show a closed train window, with the wall time of the slowest rank. Collective."""
        slowest_s = max(self.communicator.all_gather(wall_ns)) / 1e9
        for metrics in self._metrics:
            metrics.close_window(samples, slowest_s)

    def show_exposed(self, seconds: float) -> None:
        for metrics in self._metrics:
            metrics.exposed(seconds)

    def finish(self, results: Sequence[Facts] | None = None) -> RankRecord:
        """Write the rank records, stay up for a last scrape, and in a pod send them through rank 0's log.

        ``results`` are the workers' facts, where they differ. Returns the first worker's record.
        """
        each_worker = zip(self.workers, results or [self.facts] * len(self.workers), strict=True)
        records = [self._record(worker, facts) for worker, facts in each_worker]
        for worker, record in zip(self.workers, records, strict=True):
            worker.recorder.finish(record)
        if self._metrics:
            time.sleep(_seconds(METRICS_LINGER_ENV))
        for metrics in self._metrics:
            metrics.close()
        # Last of all, and outside of every window: while the process lives its log may still be rotated away.
        if self.trial and os.environ.get(PODS_ENV):
            publish(self.trial, records, self.out, self.communicator)
        return records[0]

    def print_summary(self, record: RankRecord) -> None:
        """Print what was measured over all ranks, on rank 0, when no engine will report it."""
        if self.trial is not None:
            return
        mine = [[w.kind.value, w.samples, w.wall_ns, w.steps] for w in record.windows]
        seen = record.proof or Proof()
        calls = seen.communication.calls if seen.communication else None
        ranks = self.communicator.all_gather([mine, record.parameter_checksum, calls, seen.data and seen.data.digest])
        if self.communicator.rank == 0:
            print("\n".join(summary_lines(ranks, record)), flush=True)

    def _record(self, worker: LocalWorker, facts: Facts) -> RankRecord:
        known = {
            "versions": {**versions(), **facts.versions},
            "environment": environment(),
            "topology": worker.topology,
            "metrics_port": worker.metrics.port if worker.metrics else None,
            "ended_ns": self.unix.now(),
            "kernel_ns": self.unix.kernel_ns(),
        }
        return RankRecord(**dict(facts) | known)


def _seconds(name: str) -> float:
    text = os.environ.get(name, "").strip()
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        raise WorkloadError(f"{name}={text!r}: expected a number of seconds") from None


def summary_lines(ranks: list[list[object]], record: RankRecord) -> list[str]:
    """Return the lines of the summary of ``ranks``.

    Each rank has its windows as (kind, samples, wall ns, steps), its checksum, the number of its collectives, and a
    digest of what it read.
    """
    windows = [rank[0] for rank in ranks]
    checksums = {rank[1] for rank in ranks}
    train = [
        (sum(w[1] for w in same), max(w[2] for w in same) / 1e9, same[0][3])
        for same in zip(*windows, strict=False)
        if same[0][0] == WindowKind.train.value
    ]
    workers = count(len(ranks), "worker")
    if not train:
        return [f"scalecurve: {workers}, no window was completed"]
    throughput = sum(samples for samples, _, _ in train) / sum(wall for _, wall, _ in train)
    rates = [samples / wall for samples, wall, _ in train]
    step_ms = statistics.median(wall / steps for _, wall, steps in train) * 1e3
    lines = [
        f"scalecurve: {workers}, {count(len(train), 'window')} of {count(train[0][2], 'step')}: "
        f"{throughput:,.1f} {record.sample_unit}/s (windows {min(rates):,.1f} to {max(rates):,.1f}), "
        f"{step_ms:,.3f} ms a step"
    ]
    if record.warmup and not record.warmup.stable:
        lines.append(f"scalecurve: step time had not settled after {record.warmup.steps} warm-up steps")
    if record.finite_loss is False:
        lines.append("scalecurve: the loss was not finite")
    if any(rank[2] == 0 for rank in ranks):
        lines.append("scalecurve: ranks exchanged nothing while they were observed, so this was not one training job")
    read = [rank[3] for rank in ranks if rank[3] is not None]
    if len(set(read)) < len(read):
        lines.append("scalecurve: ranks read the same samples")
    if len(checksums) > 1:
        lines.append("scalecurve: the replicas have diverged, so this was not one training job")
    return lines
