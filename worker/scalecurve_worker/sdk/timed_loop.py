"""Times a loop of steps in blocks: warm-up, windows, and untimed ones between them."""

import time

from scalecurve_api.record.journal import WARMUP_WINDOW, StepRow
from scalecurve_api.record.rank import Warmup, Window, WindowKind
from scalecurve_worker.monitor.host_monitor import HostMonitor
from scalecurve_worker.monitor.waiting import Waiting
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.sdk.counts import Passes, StepCounts
from scalecurve_worker.sdk.explainer import Alternate, Explainer
from scalecurve_worker.sdk.losses import Losses
from scalecurve_worker.sdk.observation import Observer
from scalecurve_worker.sdk.pauses import Pauses
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.steps.schedule import LEAD_STEPS, Block, Schedule, count_sectioned_steps, enough_steps, slowest
from scalecurve_worker.steps.timing import BareClock, Clock, even_out

DRAIN_NS = 400_000_000  # the journal is at most so far behind the steps that have ended


class TimedLoop:
    """The blocks of steps of one rank; what a step counts and what explains it is collected by its parts."""

    def __init__(
        self,
        session: Session,
        clock: Clock,
        counts: StepCounts,
        losses: Losses,
        loading: LoaderTime,
        explainer: Explainer,
        alternate: Alternate | None,
        observer: Observer | None,
    ) -> None:
        self.windows: list[Window] = []
        self.energies: list[list[int | None]] = []
        self.monitor = HostMonitor([worker.topology for worker in session.workers])
        self._session = session
        self._clock = self._every_step = clock
        self._bare = BareClock(clock)
        self._counts = counts
        self._losses = losses
        self._loading = loading
        self._explainer = explainer
        self._alternate = alternate
        self._observer = observer
        self._observed_from = 0.0
        several = observer is not None and session.communicator.world * len(session.workers) > 1
        observed = self._enough_observed if several else None
        self._schedule = Schedule(
            session.measure,
            alternate.kind if alternate else None,
            observed,
            counted=lambda: explainer.counts,
            traced=lambda: explainer.traces,
            sectioned=self._agree_on_section_steps,
            seed=session.seed,
        )
        self.sections = Sections(loading)
        self._pauses = Pauses(clock, loading)
        self.passes = Passes()
        self._times: list[float] = []
        self._loads: list[int] = []
        self._loaded_ns = 0
        self._window_loader_ns = 0
        self._block: Block | None = None
        self._left = 0
        self._lead = 0
        self._lead_ns = 0
        self._leading = Waiting()
        self._drain_at = 0
        self._opened_ns = 0
        self._begun_steps = 0
        self._drained_steps = 0
        self._window_units = 0
        self._window_samples = 0
        self._first_step = 0
        self._step_s: dict[WindowKind, float] = {}
        self._ended = False

    @property
    def kind(self) -> WindowKind:
        """Of the step that runs now: train (warm-up too), or the alternate kind."""
        block, alternate = self._block, self._alternate
        return alternate.kind if block and alternate and block.kind is alternate.kind else WindowKind.train

    @property
    def bare(self) -> bool:
        """Whether nothing but the time of several steps is measured now."""
        return self._clock is self._bare

    @property
    def running(self) -> bool:
        return self._block is not None

    @property
    def complete(self) -> bool:
        """Whether all is measured that must be; the sections of further steps need not."""
        return self._ended if self._block is None else self._block.sectioned

    @property
    def current_step(self) -> int:
        return self._begun_steps - 1

    @property
    def warmup(self) -> Warmup | None:
        return self._schedule.warmup

    @property
    def exposed_method(self) -> str | None:
        """How communication was taken out of the windows without it, where there are any."""
        return self._alternate.method if self._alternate and self._alternate.kind in self._step_s else None

    def pause(self) -> None:
        """Pause the timing while the program evaluates, until ``resume``."""
        if self._block is not None:
            self._pauses.begin()

    def resume(self) -> None:
        """Resume the timing, as the program trains again."""
        self._pauses.end(self.current_step)

    @property
    def total_pause_s(self) -> float:
        """Seconds of all pauses."""
        return self._pauses.total_ns / 1e9

    def end(self) -> None:
        """End the loop: no step follows, and a window that is open is not measured."""
        if self._block is not None:
            self._abandon()
        self._ended = True

    def advance(self) -> bool:
        """Return whether one more step is to be run; the last one, if any, ends here."""
        # The whole cost of a step: keep it to a few calls.
        if self._left:
            self._left -= 1
            self._begun_steps += 1
            self._loads.append(self._loading.ns)
            if self._clock.mark() >= self._drain_at:
                self._drain_or_lead()
            return True
        return self._turn()

    def _turn(self) -> bool:
        if self._ended:
            return False
        times: list[float] = []
        if not self._begun_steps:
            self._explainer.begin()
        if (block := self._block) is not None:
            self._close(block)
            if block.judges_warmup:
                times = slowest(self._session.communicator.all_gather(self._times))
        block = self._schedule.next_block(times)
        if block is not None and block.window == 0 and self._alternate is None:
            self._alternate = self._explainer.alternate(self._session.communicator)
            self._schedule.alternate = self._alternate.kind if self._alternate else None
        self._switch(block)
        if block is not None:
            self._open(block)
        self._ended = block is None
        return not self._ended

    def _switch(self, block: Block | None) -> None:
        before, self._block = self._block, block
        if before is not None and before.sectioned and not (block is not None and block.sectioned):
            self.sections.close()
        if self._alternate is None:
            return
        was, will_be = (each is not None and each.kind is self._alternate.kind for each in (before, block))
        if will_be and not was:
            self._alternate.enter()
        elif was and not will_be:
            self._alternate.leave()

    def _open(self, block: Block) -> None:
        self._lead = LEAD_STEPS if block.measured else 0
        self._lead_ns = 0
        self._left = self._lead + block.steps - 1
        self._first_step = self._begun_steps + self._lead
        self._begun_steps += 1
        self._window_units = self._window_samples = 0
        self._window_loader_ns = 0
        self._pauses.window_ns = self._pauses.window_count = 0
        self._times = []
        self._bare.watch(self._lead, block.steps)
        self._clock = self._bare if block.kind is WindowKind.bare else self._every_step
        self._clock.synchronize()
        if block.measured and not self.bare:
            self.monitor.open()
        if block.observed and self._observer is not None:
            if block.anew:
                self._observed_from = time.monotonic()
            self._observer.begin(block.steps, anew=block.anew)
        if block.counted:
            self._explainer.begin_count()
        elif block.traced:
            self._explainer.begin_trace(block.steps)
        elif block.sectioned:
            if self.sections.begin():
                self._explainer.watch_sections(self.sections)
        elif block.measured and block.kind is WindowKind.train:
            self._explainer.window_opens()
        self._session.communicator.barrier()
        self._opened_ns = self._clock.open()
        self._loaded_ns = self._loading.ns
        self._drain_at = time.monotonic_ns() + DRAIN_NS
        if self._lead and not self.bare:
            self._leading.begin()
            self._drain_at = 0  # the lead's end comes first
        if self._session.facts.first_step_ns is None:
            self._session.facts.first_step_ns = self._opened_ns
        if block.kind in (WindowKind.train, WindowKind.instrumented) and block.measured:
            self.monitor.watch()

    def _close(self, block: Block) -> None:
        self.resume()
        self._loads.append(self._loading.ns)
        self._clock.mark()
        whole_ns = self._clock.close() - self._pauses.window_ns
        if block.observed and self._observer is not None:
            self._observer.end()
        if block.traced:
            self._explainer.end_trace(whole_ns)
        elif block.sectioned:
            self.sections.end(block.steps, whole_ns)
        spent_mj = (
            [None] * len(self._session.workers)
            if self.bare
            else self.monitor.energy_consumption_mj()
            if block.measured
            else []
        )
        self.monitor.rest()
        self._session.communicator.barrier()
        self._drain(settled=True)
        if block.counted:
            self._explainer.end_count(self._window_units)
        if not block.measured:
            return
        if not self.bare:
            self.monitor.close()
        wall_ns = whole_ns - self._lead_ns
        self.windows.append(
            Window(
                index=block.window,
                kind=block.kind,
                open_ns=self._opened_ns + self._lead_ns,
                wall_ns=wall_ns,
                first_step=self._first_step,
                steps=block.steps,
                samples=self._window_units,
                sequences=self._window_samples if self._counts.unit == "tokens" else None,
                lead_ns=self._lead_ns,
                lead_waited_ns=None if self.bare else self._leading.ns,
                loader_ns=self._window_loader_ns if self._loading.ns else None,
                paused_ns=self._pauses.window_ns or None,
                pauses=self._pauses.window_count,
                **({} if self.bare else self.passes.pass_counts()),
            )
        )
        if block.kind is WindowKind.train:
            self._session.show_window(self._window_units, wall_ns)
            self._explainer.window_closed()
            if self._observer is not None:
                self._observer.window_closed()
        # The counter cannot be read at the end of a step that the device has not reached.
        self.energies.append([None if each is None else round(each * wall_ns / whole_ns) for each in spent_mj])
        self._step_s[block.kind] = wall_ns / 1e9 / block.steps
        if block.kind is WindowKind.no_communication:
            self._session.show_exposed(self._step_s[WindowKind.train] - self._step_s[block.kind])

    def _drain_or_lead(self) -> None:
        if self._leading.open:
            self._leading.end()
            self.passes.open()
            if self._observer is not None and self._block is not None and self._block.kind is WindowKind.train:
                self._observer.window_opens()
            self._drain_at = time.monotonic_ns() + DRAIN_NS
        else:
            self._drain(settled=False)

    def _drain(self, settled: bool) -> None:
        """Write out the steps that have ended; ``settled`` when the window has closed and all of them have."""
        block = self._block
        assert block is not None
        spans = self._pauses.take_out(self._clock.finished(), self._drained_steps)
        if self.bare:
            spans = even_out(spans[: self._lead]) + even_out(spans[self._lead :])
        count = len(spans)
        counts = self._counts.take(count)
        loads = [self._loaded_ns, *self._loads[:count]]
        del self._loads[:count]
        alternate = self._alternate is not None and block.kind is self._alternate.kind
        # Steps after the last window are as many as the clock allows: no loss of theirs is the run's.
        training = not (alternate or block.traced or block.sectioned)
        losses = self._losses.take(self._drained_steps, count, settled=settled, training=training)
        lead = min(self._lead, count)
        windows = [WARMUP_WINDOW] * lead + [block.window] * (count - lead)
        self._session.append(
            StepRow(self._drained_steps + i, windows[i], span.start_ns, span.duration_ns, counts[i].units, losses[i])
            for i, span in enumerate(spans)
        )
        self._drained_steps += count
        self._lead -= lead
        self._loaded_ns = loads[-1]
        self._window_loader_ns += loads[-1] - loads[lead]
        self._lead_ns += sum(span.duration_ns for span in spans[:lead])
        units = sum(each.units for each in counts[lead:])
        self._window_units += units
        self._window_samples += sum(each.samples for each in counts[lead:])
        seconds = [span.duration_ns / 1e9 for span in spans[lead:]]
        if block.judges_warmup:
            self._times += seconds
        elif block.measured and block.kind is WindowKind.train:
            self._session.show_steps(seconds, units)
        self._drain_at = time.monotonic_ns() + DRAIN_NS

    def _agree_on_section_steps(self) -> int:
        """Agreed by all ranks: by the slowest one's step."""
        if not self._explainer.watches:
            return 0
        return count_sectioned_steps(max(self._session.communicator.all_gather(self._step_s[WindowKind.train])))

    def _enough_observed(self, steps: int) -> bool:
        """Agreed by all ranks: whether each has seen enough, in as many steps as there is time for."""
        complete = self._observer is None or self._observer.complete
        told = self._session.communicator.all_gather([complete, time.monotonic() - self._observed_from])
        longest_s = max(seconds for _, seconds in told)
        return all(seen for seen, _ in told) and enough_steps(steps, longest_s)

    def _abandon(self) -> None:
        """The loop was left inside a window: what has ended is kept in the journal, and the window does not count."""
        block = self._block
        assert block is not None
        self._clock.close()
        if block.observed and self._observer is not None:
            self._observer.end()
        elif block.counted:
            self._explainer.end_count(0)
        elif block.traced:
            self._explainer.end_trace(0)
        self._drain(settled=True)
        self._switch(None)
