"""A rank's session in its trial: its identity, its peers, the trial's spec, and where it writes."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scalecurve_api.contract import EVALUATIONS_FILE, METRICS_LINGER_ENV, PODS_ENV
from scalecurve_api.record.journal import StepRow
from scalecurve_api.record.rank import (
    AllReduceRow,
    DatasetFacts,
    DeviceSamples,
    Evaluation,
    NoiseScaleRow,
    QuantizationFacts,
    RankRecord,
    RankTopology,
    ServerCounts,
    Traffic,
    Warmup,
    Window,
)
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.monitor.metrics import Metrics, linger, open_metrics
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.identity import RankIdentity, identify
from scalecurve_worker.process.preflight import world_size_mismatch
from scalecurve_worker.process.topology import environment, topology, versions
from scalecurve_worker.process.trial_spec import out_folder, read_trial
from scalecurve_worker.record.publish import publish
from scalecurve_worker.record.recorder import Recorder
from scalecurve_worker.rendezvous.communicator import Communicator, find_communicator
from scalecurve_worker.steps.timing import UnixTime

UNNAMED = "unnamed"


@dataclass
class Facts:
    """What a program notes about itself: fields of the rank record."""

    backend: str | None = None
    strategy: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    parameters: int | None = None
    initial_checksum: str | None = None
    frozen_checksums: list[str] = field(default_factory=list)
    shard_elements: int | None = None
    traffic: Traffic | None = None
    servers: list[ServerCounts] = field(default_factory=list)
    pushes: int | None = None
    flops_per_sample: float | None = None
    sample_unit: Literal["samples", "tokens"] = "samples"
    peak_flops: float | None = None
    peak_memory_bytes: int | None = None
    evaluations: list[Evaluation] = field(default_factory=list)
    dataset: DatasetFacts | None = None
    noise_scale: list[NoiseScaleRow] = field(default_factory=list)
    quantization: QuantizationFacts | None = None
    allreduce: list[AllReduceRow] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """What was timed and checked: fields of the rank record."""

    windows: list[Window] = field(default_factory=list)
    warmup: Warmup | None = None
    exposed_method: str | None = None
    parameter_checksum: str | None = None
    finite_loss: bool | None = None
    last_loss: float | None = None
    foreign_load: float | None = None
    stolen_load: float | None = None
    device_samples: DeviceSamples | None = None
    first_step_ns: int | None = None


@dataclass
class LocalWorker:
    """A rank of which this process keeps the record: its own, or one replica of several that it drives."""

    topology: RankTopology
    recorder: Recorder
    metrics: Metrics | None


class Session:
    """One process of one trial, joined; without an engine there is no trial, and nothing is written unless asked.

    A process is one rank. A framework that drives several workers from one process (``MirroredStrategy``,
    ``DataParallel``) keeps a record for each of them, with the one process's number.
    """

    def __init__(
        self,
        device: str | None = None,
        device_name: str | None = None,
        *,
        communicator: Communicator | None = None,
        topologies: Sequence[RankTopology] | None = None,
        world: int | None = None,
    ) -> None:
        """Join the other ranks and say so in the ready files.

        ``communicator`` is one that the program has joined already. ``topologies`` are the workers that this process
        drives, where it is not itself the one; ``world`` is then how many workers there are over all processes.

        Raises:
            WorkloadError: a trial that cannot be read.
            CommunicatorError: ranks that cannot meet.
            MetricsError: a metrics port that cannot be had.
        """
        self.unix = UnixTime()
        self.started_ns = self.unix.now()
        self.trial: TrialSpec | None = read_trial()
        self.out: Path | None = out_folder()
        launched = identify()
        self.communicator: Communicator = communicator or find_communicator(launched, self.out)
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
        self.workers = [self._worker(each, index or each.local_rank) for index, each in enumerate(topologies)]
        self.topology: RankTopology = self.workers[0].topology
        self.recorder: Recorder = self.workers[0].recorder
        self._metrics = [worker.metrics for worker in self.workers if worker.metrics]
        self.facts = Facts(backend=self.communicator.backend)
        for worker in self.workers:
            worker.recorder.ready(worker.topology)

    @property
    def measure(self) -> Measure:
        return self.trial.measure if self.trial else Measure()

    def append(self, rows: Iterable[StepRow]) -> None:
        kept = list(rows)
        for worker in self.workers:
            worker.recorder.append(kept)

    def show_steps(self, seconds: Sequence[float], samples: int) -> None:
        """Show finished steps of a train window to whoever scrapes; ``samples`` are those of one worker."""
        for metrics in self._metrics:
            metrics.observe(seconds, samples)

    def show_window(self, samples: int, wall_ns: int) -> None:
        """Show a closed train window to Prometheus, with the wall time of the slowest rank. Collective."""
        slowest_s = max(self.communicator.all_gather(wall_ns)) / 1e9
        for metrics in self._metrics:
            metrics.close_window(samples, slowest_s)

    def show_exposed(self, seconds: float) -> None:
        """Show the exposed communication of a step, by the last two windows."""
        for metrics in self._metrics:
            metrics.exposed(seconds)

    def finish(self, measured: Measured | Sequence[Measured]) -> RankRecord:
        """Write the rank records, stay up for a last scrape, and in a pod send them through rank 0's log.

        ``measured`` is that of every worker, where they differ. Returns the first worker's record.
        """
        results = [measured] * len(self.workers) if isinstance(measured, Measured) else measured
        records = [self._record(worker, result) for worker, result in zip(self.workers, results, strict=True)]
        for worker, record in zip(self.workers, records, strict=True):
            worker.recorder.finish(record)
        if self._metrics:
            linger(_seconds(METRICS_LINGER_ENV))
        for metrics in self._metrics:
            metrics.close()
        # Last of all, and outside of every window: while the process lives its log may still be rotated away.
        if self.trial and os.environ.get(PODS_ENV):
            publish(self.trial, records, self.out, self.communicator)
        return records[0]

    def keep_evaluation(self, row: Evaluation) -> None:
        """Add a row to the record, and to ``evals.jsonl`` at once: a training that is killed leaves what it reached."""
        self.facts.evaluations.append(row)
        if self.out is not None:
            with (self.out / EVALUATIONS_FILE).open("a") as file:
                file.write(json.dumps(row.wire()) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def _worker(self, where: RankTopology, place: int) -> LocalWorker:
        """``place`` is the worker's among those whose metrics are served here: not its own node's, for a chief's."""
        return LocalWorker(where, Recorder(self.out, where.rank), open_metrics(self.trial, where.rank, place))

    def _record(self, worker: LocalWorker, measured: Measured) -> RankRecord:
        facts = {**vars(self.facts), "versions": {**versions(), **self.facts.versions}}
        return RankRecord(
            trial=self.trial.name if self.trial else UNNAMED,
            world=self.identity.world,
            topology=worker.topology,
            environment=environment(),
            metrics_port=worker.metrics.port if worker.metrics else None,
            started_ns=self.started_ns,
            ended_ns=self.unix.now(),
            **facts,
            **vars(measured),
        )


def _seconds(name: str) -> float:
    text = os.environ.get(name, "").strip()
    try:
        return float(text or 0)
    except ValueError:
        raise WorkloadError(f"{name}={text!r}: expected a number of seconds") from None
