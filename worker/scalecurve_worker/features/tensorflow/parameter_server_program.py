"""``strategy: parameter-server``: asynchronous updates of parameters that servers hold, run by a chief.

In a window every worker gets one closure with the window's steps: with as many closures as idle workers each takes
exactly one, which is checked. A closure notes the time around each of its steps, and reads a counter on server 0 that
every update moves on: how far it moved between reading parameters and updating them is the update's staleness.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scalecurve_api.features.tensorflow.fields import TensorFlowWorkload
from scalecurve_api.features.tensorflow.strategy import GRPC
from scalecurve_api.record.journal import WARMUP_WINDOW, StepRow
from scalecurve_api.record.rank import RankTopology, Window, WindowKind
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.tensorflow.cluster_membership import BEGIN, END, STOP, ClusterMembership
from scalecurve_worker.features.tensorflow.framework import framework_versions, tf
from scalecurve_worker.features.tensorflow.job import TensorFlowConfig
from scalecurve_worker.features.tensorflow.models import step_flops
from scalecurve_worker.features.tensorflow.training import ReplicaTrainer, replica_checksums
from scalecurve_worker.monitor.cpu_load import CpuMeter, CpuUse, foreign_share, stolen_share
from scalecurve_worker.process.startup import allowed_cores
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.communicator import SingleProcess
from scalecurve_worker.steps.schedule import Block, Schedule, slowest
from scalecurve_worker.training.learning_rate import while_timed

POOL = 4
_CLOCKS = "windows by the chief, from scheduling to the last worker's end; steps by each worker's own (tf.timestamp)"


class ServedError(RuntimeError):
    """Workers that did not share a window's steps evenly."""


class Run(NamedTuple):
    """A worker's steps of one block: Unix seconds of their starts and ends, losses, and staleness."""

    worker: int
    marks: Sequence[float]
    losses: Sequence[float]
    staleness: Sequence[int]


@dataclass
class _Worker:
    finite: bool = True
    last_loss: float | None = None
    steps: int = 0


class Chief:
    """One trial with parameter servers, as its chief runs it."""

    def __init__(self, trial: TrialSpec, cluster: ClusterMembership, config: TensorFlowConfig) -> None:
        self._cluster, self._batch = cluster, config.batch
        # They say where they are once their servers listen.
        topologies = [RankTopology.model_validate(place[0]) for place in cluster.everybody()[: cluster.workers]]
        strategy = tf.distribute.ParameterServerStrategy(cluster.resolver())
        world = strategy.extended._num_workers
        self._session = Session(communicator=SingleProcess(), topologies=topologies, world=world)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        workload = trial.workload_as(TensorFlowWorkload)
        rule = while_timed(workload.optimizer, trial.point.workers)
        self._trainer = ReplicaTrainer(strategy, config.build, rule, smoothing=workload.options.label_smoothing)
        self._strategy = strategy
        with strategy.scope():
            self._updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        self._block = tf.function(self._steps)
        self._data = iter(self._coordinator.create_per_worker_dataset(_random_data(trial.seed, config)))
        self._workers = [_Worker() for _ in self._session.workers]
        self._staleness: Counter[int] = Counter()
        self._windows: list[Window] = []
        self._meter = CpuMeter(allowed_cores())

    def run(self) -> None:
        """Run warm-up, windows, checks and the records of every worker; then tell everybody that all is over."""
        schedule = Schedule(self._session.measure)
        self._note()
        facts = self._session.facts
        facts.initial_checksum = replica_checksums(self._strategy, self._trainer.model)[0]
        times: list[float] = []
        while (block := schedule.next_block(times)) is not None:
            runs = self._measure_block(block) if block.measured else self._even_runs(block.steps)[0]
            self._keep(block, runs)
            times = slowest([_durations(run) for run in runs]) if block.judges_warmup else []
        after = replica_checksums(self._strategy, self._trainer.model)[0]
        facts.options["staleness"] = {str(behind): count for behind, count in sorted(self._staleness.items())}
        facts.options["meanStaleness"] = sum(k * n for k, n in self._staleness.items()) / self._staleness.total()
        facts.windows, facts.warmup = self._windows, schedule.warmup
        facts.parameter_checksum, facts.first_step_ns = after, self._windows[0].open_ns
        results = [
            facts.model_copy(
                update={
                    "finite_loss": each.finite,
                    "last_loss": each.last_loss,
                    "foreign_load": foreign,
                    "stolen_load": stolen,
                }
            )
            for each, (foreign, stolen) in zip(self._workers, self._loads(), strict=True)
        ]
        self._session.finish(results)
        self._cluster.everybody(STOP)

    def _steps(self, data: Any, steps: Any) -> tuple[Any, Any, Any, Any]:
        """The steps of one block on the worker that takes this closure."""
        marks = tf.TensorArray(tf.float64, size=steps + 1)
        losses = tf.TensorArray(tf.float32, size=steps)
        staleness = tf.TensorArray(tf.int64, size=steps)
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        step = tf.function(lambda: self._step(data))

        def body(index: Any, marks: Any, losses: Any, staleness: Any) -> tuple[Any, Any, Any, Any]:
            loss, behind = step()
            # The call ends when everything in it has, its updates included.
            with tf.control_dependencies([loss, behind]):
                now = tf.timestamp()
            return index + 1, marks.write(index + 1, now), losses.write(index, loss), staleness.write(index, behind)

        began = marks.write(0, tf.timestamp())
        _, marks, losses, staleness = tf.while_loop(
            lambda index, *_: index < steps, body, (0, began, losses, staleness), parallel_iterations=1
        )
        return tf.cast(worker, tf.int64), marks.stack(), losses.stack(), staleness.stack()

    def _step(self, data: Any) -> tuple[Any, Any]:
        model, optimizer = self._trainer.model, self._trainer.optimizer
        before = self._updates.read_value()

        def replica_step(inputs: Any, targets: Any) -> Any:
            variables = model.trainable_variables
            values = [variable.value for variable in variables]
            with tf.GradientTape() as tape:
                loss = self._trainer.loss(model(inputs, training=True), targets)
            gradients = self._trainer.add_weight_decay(tape.gradient(loss, values), values)
            optimizer.apply(gradients, variables)
            return loss

        # Parameters are read after the counter: what moves it from here on was not in them.
        with tf.control_dependencies([before]):
            loss = self._strategy.run(replica_step, args=next(data))
        with tf.control_dependencies([loss]):
            now = self._updates.assign_add(1, read_value=True)
        return loss, now - 1 - before

    def _measure_block(self, block: Block) -> list[Run]:
        self._say(BEGIN)
        runs, opened_ns, wall_ns = self._even_runs(block.steps)
        self._say(END)
        window = Window(
            index=block.window,
            kind=WindowKind.train,
            open_ns=opened_ns,
            wall_ns=wall_ns,
            first_step=self._workers[0].steps,
            steps=block.steps,
            samples=block.steps * self._batch,
        )
        self._windows.append(window)
        self._session.show_steps(_durations(runs[0]), window.samples)
        self._session.show_window(window.samples, window.wall_ns)
        return runs

    def _even_runs(self, steps: int) -> tuple[list[Run], int, int]:
        """Let every worker do so many steps: by worker, with Unix ns of the opening, and ns until the last ended."""
        count = tf.constant(steps)
        opened = time.monotonic_ns()
        values = [self._coordinator.schedule(self._block, args=(self._data, count)) for _ in self._workers]
        self._coordinator.join()
        wall_ns = time.monotonic_ns() - opened
        runs = [Run(int(w), m.tolist(), x.tolist(), s.tolist()) for w, m, x, s in self._coordinator.fetch(values)]
        runs.sort(key=lambda run: run.worker)
        if [run.worker for run in runs] != list(range(len(self._workers))):
            raise ServedError(f"workers {[run.worker for run in runs]} took a window's closures; expected one each")
        return runs, self._session.unix.of(opened), wall_ns

    def _keep(self, block: Block, runs: Sequence[Run]) -> None:
        for worker, local, run in zip(self._workers, self._session.workers, runs, strict=True):
            window = block.window if block.measured else WARMUP_WINDOW
            local.recorder.append(
                StepRow(worker.steps + index, window, round(begin * 1e9), round((end - begin) * 1e9), self._batch, loss)
                for index, (begin, end, loss) in enumerate(zip(run.marks[:-1], run.marks[1:], run.losses, strict=True))
            )
            worker.steps += len(run.losses)
            finite = [loss for loss in run.losses if math.isfinite(loss)]
            worker.finite = worker.finite and len(finite) == len(run.losses)
            worker.last_loss = finite[-1] if finite else worker.last_loss
            self._staleness.update(run.staleness)

    def _say(self, word: str) -> list[Any]:
        used = self._meter.used()
        if word == BEGIN:
            self._meter.begin()
        replies = self._cluster.everybody(word)
        if word == END:
            self._meter.end()
        self._own = [self._session.topology.host, allowed_cores(), *(used or [None] * 4)]
        return replies

    def _loads(self) -> list[tuple[float | None, float | None]]:
        """Shares of each worker's cores that others (not this trial's chief and servers) and the hypervisor took."""
        processes = self._say(END)
        processes[self._cluster.workers] = self._own
        loads: list[tuple[float | None, float | None]] = []
        for _, cores, *used in processes[: self._cluster.workers]:
            if used[0] is None:
                loads.append((None, None))
                continue
            beside = [each[4] or 0.0 for each in processes if not set(each[1]).isdisjoint(cores)]
            use = CpuUse(*used)
            loads.append((foreign_share(use, len(cores), sum(beside)), stolen_share(use, len(cores))))
        return loads

    def _note(self) -> None:
        facts = self._session.facts
        trained = self._trainer.model.trainable_variables
        held = Counter(str(variable.value.device).partition("/task:")[2].partition("/")[0] for variable in trained)
        facts.backend = GRPC
        facts.strategy = type(self._strategy).__name__
        facts.versions = framework_versions(on_gpu=False)
        facts.flops_per_sample = step_flops(self._trainer.model)
        facts.parameters = sum(math.prod(each.shape) for each in trained)
        facts.options = {
            "batchPerWorker": self._batch,
            "optimizer": type(self._trainer.optimizer).__name__,
            "dataFormat": "NHWC",
            "updates": "asynchronous",
            "servers": self._strategy.extended._num_ps,
            "variablesByServer": {server: held[server] for server in sorted(held)},
            "closure": "the steps of a window, one closure a worker (ClusterCoordinator)",
            "clocks": _CLOCKS,
            "input": f"{POOL} random batches a worker, by a dataset on its host",
            "stalenessBy": "a counter on server 0, read before the parameters and moved on after each update",
            "chiefPid": os.getpid(),
        }


def _durations(run: Run) -> list[float]:
    return [end - begin for begin, end in zip(run.marks[:-1], run.marks[1:], strict=True)]


def _random_data(seed: int, config: TensorFlowConfig) -> Any:
    channels, height, width = config.shape
    shape = (POOL, config.batch, height, width, channels)

    def make() -> Any:
        worker = tf.cast(tf.distribute.coordinator.experimental_get_current_worker_index(), tf.int32)
        inputs = tf.random.stateless_normal(shape, seed=[seed % (1 << 31), worker])
        targets = tf.random.stateless_uniform(
            shape[:2], seed=[worker, seed % (1 << 31)], maxval=config.classes, dtype=tf.int64
        )
        return tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat().prefetch(2)

    return tf.function(make)
