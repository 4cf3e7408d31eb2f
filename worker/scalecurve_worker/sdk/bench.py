"""``Bench``: times the loop of any training script in windows."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from scalecurve_api.record.journal import WARMUP_WINDOW, StepRow
from scalecurve_api.record.rank import RankRecord, Window, WindowKind
from scalecurve_worker.monitor.host_monitor import HostMonitor
from scalecurve_worker.record.session import Measured, Session
from scalecurve_worker.record.summary import print_summary
from scalecurve_worker.sdk.losses import Losses
from scalecurve_worker.steps.schedule import Block, Schedule, slowest
from scalecurve_worker.steps.timing import Clock

DRAIN_NS = 400_000_000
"""The journal is at most so far behind the steps that have ended."""

LEAD_STEPS = 1
"""Steps between a window's barrier and its opening, in no window: the device is idle then, and waits for the host.

On an H200 the first step after the barrier took 2 to 4 ms more than the others, whatever a step took; a loop that is
not stopped never pays that (docs/evidence/h200).
"""


class Alternate(Protocol):
    """Another kind of step that takes turns with training, as the same step without its all-reduce."""

    kind: WindowKind
    method: str | None
    """How communication is taken out, by name; None where it is not about that."""

    def enter(self) -> None:
        """The next steps are of this kind; the device is idle."""

    def leave(self) -> None:
        """The next steps train again, from the state that ``enter`` found."""


class Bench:
    """Times steps: warm-up until stable, then the windows. Every rank makes the same calls."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        alternate: Alternate | None = None,
        checksum: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``checksum`` gives a digest of the parameters, where ``finish`` is called without one."""
        self.session = session
        self.samples_per_step: int | None = session.trial.point.batch_per_worker if session.trial else None
        self._clock = clock
        self._checksum = checksum
        self._alternate = alternate
        self._schedule = Schedule(session.measure, alternate.kind if alternate else None)
        self._losses = Losses()
        self._monitor = HostMonitor([worker.topology for worker in session.workers])
        self._measured = Measured()
        self._energies: list[list[int | None]] = []
        self._samples: list[int] = []
        self._times: list[float] = []
        self._block: Block | None = None
        self._left = 0
        self._lead = 0
        self._lead_ns = 0
        self._drain_at = 0
        self._alternating = False
        self._opened_ns = 0
        self._begun_steps = 0
        self._drained_steps = 0
        self._window_samples = 0
        self._first_step = 0
        self._step_s: dict[WindowKind, float] = {}
        self._ended = False

    @property
    def kind(self) -> WindowKind:
        """What the step that runs now is: train (warm-up too), or the alternate kind."""
        block = self._block
        return WindowKind.train if block is None or block.kind is WindowKind.warmup else block.kind

    def steps(self, loader: Iterable[Any], samples: int | None = None) -> Iterator[Any]:
        """The loader's batches, from the start again when it ends, until every window is measured.

        ``samples`` is the number in each batch; left out, it is the first dimension of the batch or of its first
        tensor, else the trial's batch, else 1.

        Raises:
            ValueError: the loader gives nothing.
        """
        batches = iter(loader)
        while self._advance():
            try:
                batch = next(batches)
            except StopIteration:
                batches = iter(loader)
                try:
                    batch = next(batches)
                except StopIteration:
                    raise ValueError(
                        "bench.steps: the loader gives no batches (a generator cannot be repeated)"
                    ) from None
            self._samples.append(samples or self._samples_of(batch))
            yield batch

    def step(self, samples: int | None = None) -> bool:
        """Whether one more step of ``samples`` samples is to be run; a step ends where the next call begins."""
        if self._advance():
            self._samples.append(samples or self.samples_per_step or 1)
            return True
        return False

    def loss(self, value: Any) -> None:
        """The loss of the step that runs now, a number or a scalar tensor; a device's is read after the window."""
        if self._block is not None:
            self._losses.keep(self._begun_steps - 1, value)

    def counted(self, samples: int) -> None:
        """Correct the number of samples of the step that runs now: none where its gradient was thrown away."""
        self._samples[-1] = samples

    def not_finite(self) -> None:
        """Say that a loss outside of the timed steps was not finite."""
        self._losses.finite = False

    def finish(self, checksum: str | Sequence[str] | None = None) -> RankRecord:
        """Check what can be checked, and write the record. Every rank calls it once, after its last step.

        ``checksum`` is a digest of the parameters, for programs whose model is not torch's; one for every worker that
        this process drives, where these are several. Returns the first worker's record.
        """
        if self._block is not None:
            self._abandon()
        self._ended = True
        measured = self._measured
        measured.warmup = self._schedule.warmup
        measured.parameter_checksum = (checksum if isinstance(checksum, str) else None) or self._checksum()
        measured.finite_loss = self._losses.finite
        measured.last_loss = self._losses.last
        if self._alternate and self._alternate.kind in self._step_s:
            measured.exposed_method = self._alternate.method
        measured.foreign_load, measured.stolen_load, samples = self._monitor.found(self.session.communicator)
        sums = [measured.parameter_checksum] * len(samples) if isinstance(checksum, str | None) else list(checksum)
        record = self.session.finish(
            [
                replace(
                    measured, windows=self._windows_of(worker), parameter_checksum=sums[worker], device_samples=sample
                )
                for worker, sample in enumerate(samples)
            ]
        )
        print_summary(self.session, record)
        return record

    def _advance(self) -> bool:
        # The whole cost of a step: keep it to a few calls.
        if self._left:
            self._left -= 1
            self._begun_steps += 1
            if self._clock.mark() >= self._drain_at:
                self._drain(settled=False)
            return True
        return self._turn()

    def _turn(self) -> bool:
        if self._ended:
            return False
        times: list[float] = []
        if self._block is not None:
            block = self._block
            self._close(block)
            if block.judges_warmup:
                times = slowest(self.session.communicator.all_gather(self._times))
        self._switch(self._schedule.next_block(times))
        if self._block is None:
            self._ended = True
            return False
        self._open(self._block)
        return True

    def _switch(self, block: Block | None) -> None:
        self._block = block
        if self._alternate is None:
            return
        wanted = block is not None and block.kind is self._alternate.kind
        if wanted and not self._alternating:
            self._alternate.enter()
        elif self._alternating and not wanted:
            self._alternate.leave()
        self._alternating = wanted

    def _open(self, block: Block) -> None:
        self._lead = LEAD_STEPS if block.measured else 0
        self._lead_ns = 0
        self._left = self._lead + block.steps - 1
        self._first_step = self._begun_steps + self._lead
        self._begun_steps += 1
        self._window_samples = 0
        self._times = []
        self._clock.synchronize()
        if block.measured:
            self._monitor.open()
        self.session.communicator.barrier()
        self._opened_ns = self._clock.open()
        self._drain_at = time.monotonic_ns() + DRAIN_NS
        if self._measured.first_step_ns is None:
            self._measured.first_step_ns = self._opened_ns
        if block.kind is WindowKind.train and block.measured:
            self._monitor.watch()

    def _close(self, block: Block) -> None:
        self._clock.mark()
        whole_ns = self._clock.close()
        spent_mj = self._monitor.spent_mj() if block.measured else []
        self._monitor.rest()
        self.session.communicator.barrier()
        self._drain(settled=True)
        if not block.measured:
            return
        self._monitor.close()
        wall_ns = whole_ns - self._lead_ns
        self._measured.windows.append(
            Window(
                index=block.window,
                kind=block.kind,
                open_ns=self._opened_ns + self._lead_ns,
                wall_ns=wall_ns,
                first_step=self._first_step,
                steps=block.steps,
                samples=self._window_samples,
            )
        )
        if block.kind is WindowKind.train:
            self.session.show_window(self._window_samples, wall_ns)
        # The counter cannot be read at the end of a step that the device has not reached.
        self._energies.append([None if each is None else round(each * wall_ns / whole_ns) for each in spent_mj])
        self._step_s[block.kind] = wall_ns / 1e9 / block.steps
        if block.kind is WindowKind.no_communication:
            self.session.show_exposed(self._step_s[WindowKind.train] - self._step_s[block.kind])

    def _drain(self, settled: bool) -> None:
        """Write out the steps that have ended; ``settled`` when the window has closed and all of them have."""
        block = self._block
        if block is None:
            return
        spans = self._clock.finished()
        count = len(spans)
        samples = self._samples[:count]
        del self._samples[:count]
        training = self._alternate is None or block.kind is not self._alternate.kind
        losses = self._losses.take(self._drained_steps, count, settled=settled, training=training)
        lead = min(self._lead, count)
        windows = [WARMUP_WINDOW] * lead + [block.window] * (count - lead)
        self.session.append(
            StepRow(self._drained_steps + i, windows[i], span.start_ns, span.duration_ns, samples[i], losses[i])
            for i, span in enumerate(spans)
        )
        self._drained_steps += count
        self._lead -= lead
        self._lead_ns += sum(span.duration_ns for span in spans[:lead])
        measured = sum(samples[lead:])
        self._window_samples += measured
        seconds = [span.duration_ns / 1e9 for span in spans[lead:]]
        if block.judges_warmup:
            self._times += seconds
        elif block.measured and block.kind is WindowKind.train:
            self.session.show_steps(seconds, measured)
        self._drain_at = time.monotonic_ns() + DRAIN_NS

    def _abandon(self) -> None:
        """The loop was left inside a window: what has ended is kept in the journal, and the window does not count."""
        self._clock.close()
        self._drain(settled=True)
        self._switch(None)

    def _windows_of(self, worker: int) -> list[Window]:
        pairs = zip(self._measured.windows, self._energies, strict=True)
        return [window.model_copy(update={"energy_mj": spent[worker]}) for window, spent in pairs]

    def _samples_of(self, batch: Any) -> int:
        found = batch_size(batch)
        return found if found is not None else self.samples_per_step or 1


def batch_size(batch: Any) -> int | None:
    """The first dimension of a tensor, or of the first one in a tuple, list or dict; the length of a plain list."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else None
    if isinstance(batch, dict):
        return batch_size(next(iter(batch.values()))) if batch else None
    if isinstance(batch, list | tuple) and batch:
        inner = batch_size(batch[0]) if hasattr(batch[0], "shape") else None
        return len(batch) if inner is None else inner
    return None
