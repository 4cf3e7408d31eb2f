"""``Bench``: what a training script calls around its steps."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from scalecurve_api.record.rank import RankRecord, Window, WindowKind
from scalecurve_worker.process.failure import explain, note_finished, write_failure
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.batches import LoaderTime, batch_size, batch_tokens
from scalecurve_worker.sdk.counts import StepCounts, Unit
from scalecurve_worker.sdk.explainer import Alternate, Explainer
from scalecurve_worker.sdk.losses import Losses
from scalecurve_worker.sdk.observation import Observer
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.sdk.timed_loop import TimedLoop
from scalecurve_worker.steps.timing import Clock


class Bench:
    """Times the steps of a training loop: warm-up until stable, then the windows. Every rank makes the same calls.

    A step is one optimizer update. Of ``steps`` and ``step`` a script uses one; ``loss``, ``tokens`` and ``loading``
    are optional, and ``finish`` comes last, once. As a context manager it finishes by itself when the block ends
    well, and reports the error when it does not::

        with scalecurve.attach(model) as bench:
            for batch in bench.steps(loader):
                train(batch)

    Attributes:
        session: the trial that was joined, with ``session.facts`` for what else a program knows about itself.
        samples_per_step: the trial's batch of one worker, or of its data-parallel group where the experiment has
            ``parallelism``; None where no experiment sets one.
        loading: a context manager around waiting for data that no DataLoader and no ``steps`` fetches, as
            ``with bench.loading: x, y = get_batch()``; the report shows it as waiting for data.
    """

    def __init__(
        self,
        session: Session,
        clock: Clock,
        alternate: Alternate | None = None,
        checksum: Callable[[], str | None] = lambda: None,
        observer: Observer | None = None,
        loading: LoaderTime | None = None,
        explainer: Explainer | None = None,
        unit: Unit = "samples",
    ) -> None:
        """Scripts call ``attach`` for one.

        ``checksum`` gives a digest of the parameters, where ``finish`` is called without one. ``observer`` is of a
        program that must show that it was one training job; ``loading`` counts the time that the program waits for
        batches, where that is seen outside of ``steps`` too. ``explainer`` finds out what a step is made of.
        """
        self.session = session
        point = session.trial.point if session.trial else None
        degrees = point.parallelism if point else None
        self.samples_per_step = degrees.group_batch if degrees else point.batch_per_worker if point else None
        driven = len(session.workers) if observer is not None else 1
        if driven > 1 and self.samples_per_step is not None:
            self.samples_per_step *= driven  # one process reads the batches of all its workers
        self.loading = loading or LoaderTime()
        self._checksum = checksum
        self._observer = observer
        self._explainer = explainer or Explainer()
        self._losses = Losses()
        share = (session.identity.rank % degrees.group, degrees.group) if degrees else (0, driven)
        self._counts = StepCounts(unit, share)
        if unit == "tokens":
            session.facts.sample_unit = unit
        self._loop = TimedLoop(
            session, clock, self._counts, self._losses, self.loading, self._explainer, alternate, observer
        )
        self._record: RankRecord | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish where the block ended well, also by ``sys.exit()`` after the last window; else report the error."""
        left = isinstance(error, SystemExit) and not error.code and self.complete
        if error is None or left:
            if self._record is None:
                self.finish()
        elif self.session.out is not None and not isinstance(error, KeyboardInterrupt):
            write_failure(self.session.out, explain(self.session.identity.rank, error))

    @property
    def kind(self) -> WindowKind:
        """Of the step that runs now: train (warm-up too), or the alternate kind."""
        return self._loop.kind

    @property
    def bare(self) -> bool:
        """Whether the step that runs now is one in which nothing is looked at."""
        return self._loop.bare

    @property
    def sections(self) -> Sections:
        """What times sections of untimed steps, for a program that tells of its own."""
        return self._loop.sections

    @property
    def complete(self) -> bool:
        """Whether every window is measured, so that ``finish`` can be called."""
        return self._loop.complete

    def steps(self, loader: Iterable[Any], samples: int | None = None, tokens: int | None = None) -> Iterator[Any]:
        """Repeat the loader's batches until every window is measured.

        Args:
            loader: A DataLoader, a list, or anything else that begins again when it is iterated again.
            samples: Number in each batch; by default the first dimension of the batch or of its tensors, else the
                trial's batch, else 1.
            tokens: Number in each batch, with ``unit="tokens"``; by default the elements of its first tensor of
                integers with two dimensions or more, padding included, unless ``bench.tokens`` counts them.

        Returns:
            The batches, one per step.

        Raises:
            ValueError: the loader has no batches, or some whose size is not clear.
            RuntimeError: ``bench.step()`` was called in the loop.
        """
        batches, end = iter(loader), object()
        before: int | None = None
        while self._loop.advance():
            if before is not None and self._loop.current_step != before + 1:
                raise RuntimeError("bench.step() was called in a loop over bench.steps(): use one of them, not both")
            with self.loading:
                batch = next(batches, end)
                if batch is end:
                    batches = iter(loader)
                    batch = next(batches, end)
            if batch is end:
                raise ValueError(_no_batch(loader, before is not None))
            before = self._loop.current_step
            self._counts.begin(samples or self._samples_of(batch), tokens)
            if self._observer is not None:
                self._observer.batch(batch)
            yield batch
            if self._counts.unit == "tokens":
                self._counts.or_tokens(batch, batch_tokens)

    def step(self, samples: int | None = None, tokens: int | None = None) -> bool:
        """Begin a step, if a window still needs one; it ends where the next call begins.

        Args:
            samples: Number in the step; by default the trial's batch, else 1.
            tokens: Number in the step, with ``unit="tokens"``.

        Returns:
            Whether to run the step; False after the last window.
        """
        more = self._loop.advance()
        if more:
            self._counts.begin(samples or self.samples_per_step or 1, tokens)
        return more

    def loss(self, value: Any) -> None:
        """Record the loss of the current step.

        Args:
            value: A number or a scalar tensor; one on a device is read after the window.
        """
        if self._loop.running:
            self._losses.keep(self._loop.current_step, value)

    def tokens(self, count: int) -> None:
        """Count tokens of the current step; in a step of several micro-batches, call it for each.

        Args:
            count: Tokens to add.

        Raises:
            ValueError: ``attach`` was called without ``unit="tokens"``, or ``count`` is no positive number.
        """
        self._counts.add_tokens(count)

    def model(self, model: Any) -> None:
        """Set the model that is trained, if ``attach`` was called before it existed.

        Call it early: what was observed before is not of this model.

        Args:
            model: The torch module as it is trained: on its device, and wrapped.

        Raises:
            RuntimeError: the model is on another device than the one that is timed.
        """
        self._explainer.model(model)
        if self._observer is not None:
            self._observer.model(model)

    def counted(self, samples: int) -> None:
        """Correct the number of samples of the step that runs now: none where its gradient was thrown away."""
        self._counts.correct(samples)

    def observe(self, batch: Any) -> None:
        """Observe the batch that the running step trains on, where no ``steps`` yields it."""
        if self._observer is not None:
            self._observer.batch(batch)

    def forward(self, elements: int) -> None:
        """Record that the model was called to train on inputs of so many elements."""
        self._loop.passes.inputs += elements

    def backward(self) -> None:
        """Record that gradients are about to be computed."""
        self._loop.passes.backwards += 1

    def pause(self) -> None:
        """Pause the timing while the program evaluates between two updates: that time is in no step."""
        self._loop.pause()

    def resume(self) -> None:
        """Resume the timing, as the program trains again; does nothing without a ``pause``."""
        self._loop.resume()

    @property
    def total_pause_s(self) -> float:
        """Seconds of all pauses."""
        return self._loop.total_pause_s

    def abandon(self) -> None:
        """Stop, and leave no record: another bench takes the place of this one."""
        self._loop.end()

    def not_finite(self) -> None:
        """Note that a loss outside of the timed steps was not finite."""
        self._losses.finite = False

    def finish(self, checksum: str | Sequence[str] | None = None) -> RankRecord:
        """Check what can be checked, and write the record. Every rank calls it once, after its last step.

        Args:
            checksum: Digest of the parameters, for programs whose model is not torch's; one for every worker that
                this process drives, if there are several.

        Returns:
            The first worker's record; a second call only returns it again.
        """
        if self._record is not None:
            return self._record
        if not self.complete:
            self._left_early()
        self._loop.end()
        facts = self.session.facts
        facts.batch_sizes = self._counts.batch_sizes
        facts.windows, facts.warmup = self._loop.windows, self._loop.warmup
        facts.finite_loss, facts.last_loss = self._losses.finite, self._losses.last
        facts.exposed_method = self._loop.exposed_method or facts.exposed_method
        facts.foreign_load, facts.stolen_load, samples = self._loop.monitor.found(self.session.communicator)
        facts.own_load = self._loop.monitor.own_load()
        if self._observer is not None:
            trial = self.session.trial
            declared = trial is not None and trial.workload.declares_same_data
            facts.proof = self._observer.proof(checksum if isinstance(checksum, str) else None, declared)
        self._explainer.explain(facts, self.session.communicator)
        facts.sections = self.sections.found(facts.windows, self._explainer.exposed_share)
        sums = [checksum or self._checksum()] * len(samples) if isinstance(checksum, str | None) else checksum
        usage = self._loop.monitor.usage()
        results = [
            facts.model_copy(
                update={
                    "windows": self._windows_of(i),
                    "parameter_checksum": sums[i],
                    "device_samples": sample,
                    "usage": usage[i],
                }
            )
            for i, sample in enumerate(samples)
        ]
        self._record = self.session.finish(results)
        self.session.print_summary(self._record)
        note_finished()
        return self._record

    def _left_early(self) -> None:
        """The loop was left before its last window; other ranks may still be in it, and would wait for ever."""
        rank, world = self.session.identity.rank, self.session.identity.world
        what = f"rank {rank} called finish() in step {self._loop.current_step + 1}, before the last window"
        what += ": let bench.steps() or bench.step() end the loop, on every rank"
        if world > 1:
            raise RuntimeError(what)
        print(f"scalecurve: {what}", file=sys.stderr, flush=True)

    def _windows_of(self, worker: int) -> list[Window]:
        pairs = zip(self._loop.windows, self._loop.energies, strict=True)
        return [
            window.model_copy(
                update={"energy_mj": spent[worker], "inputs": window.inputs and window.inputs // len(spent)}
            )
            for window, spent in pairs
        ]

    def _samples_of(self, batch: Any) -> int:
        size = batch_size(batch, self.samples_per_step)
        return size if size is not None else self.samples_per_step or 1


def _no_batch(loader: object, ended: bool) -> str:
    if ended:
        return (
            f"bench.steps: {type(loader).__name__} ended and gives no batches when it is iterated again, as a "
            "generator does: pass a DataLoader or a list, or a loader that begins again"
        )
    return f"bench.steps: the loader gives no batches: {type(loader).__name__} is empty (check its length, drop_last)"
