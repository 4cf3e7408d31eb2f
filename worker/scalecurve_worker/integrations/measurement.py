"""What all integrations share: join when the first step begins, count its batches, and end when all is measured."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ClassVar, Literal, TypeVar, get_args

from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.trial_spec import read_trial
from scalecurve_worker.sdk.attach import attach
from scalecurve_worker.sdk.batches import batch_size, batch_tokens
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.counts import Unit
from scalecurve_worker.steps.schedule import steps_needed

Then = Literal["exit", "stop", "continue"]
T = TypeVar("T")


class Measurement:
    """The measurement of a training whose loop is a framework's.

    ``unit`` is what throughput counts. ``then`` is what follows the last window: the process exits with code 0
    (default in a trial), the training stops and the script goes on, or the training continues (default without one).
    """

    _latest: ClassVar["Measurement | None"] = None

    def __init__(self, unit: Unit, then: Then | None) -> None:
        for name, value, allowed in (("unit", unit, get_args(Unit)), ("then", then, (*get_args(Then), None))):
            if value not in allowed:
                raise ValueError(f"ScaleCurve: {name}={value!r}; expected {', '.join(map(repr, allowed))}")
        self.over = False
        self._unit: Unit = unit
        self._then = then
        self._bench: Bench | None = None
        self._samples = 0
        self._loss: Any = None
        self._closing: Callable[[], str | None] = lambda: None

    @property
    def joined(self) -> bool:
        return self.over or self._bench is not None

    @property
    def running(self) -> bool:
        """Whether steps are timed: no evaluation and no checkpoint may come in between."""
        return self.joined and not self.over

    @property
    def stops(self) -> bool:
        """Whether the framework must end the training now."""
        return self.over and self._then == "stop"

    @property
    def bench(self) -> Bench:
        assert self._bench is not None
        return self._bench

    def join(
        self,
        model: Any,
        steps: float | None = None,
        advice: str = "",
        bench: Bench | None = None,
        closing: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Join the trial; the first step begins next. ``steps`` are those that the training has, where that is known.

        ``model`` is the outermost one, as DistributedDataParallel. ``bench`` is one for a framework that ``attach``
        does not know; ``closing`` is called after the last window, and returns ``checksum`` for ``Bench.finish``.

        Raises:
            WorkloadError: another callback measures this training, or it has too few steps.
        """
        before, Measurement._latest = Measurement._latest, self
        if before is not None and before.running:
            raise WorkloadError(
                "two ScaleCurve callbacks measure the same training; use one (after a training that was "
                "interrupted, start the process again)"
            )
        if before is not None and read_trial() is not None:
            print("scalecurve: an earlier training of this process was measured, this one is not", file=sys.stderr)
            self.over, self._then = True, "continue"
            return
        self._bench = bench or attach(model, unit=self._unit)
        self._closing = closing
        trial = self._bench.session.trial
        self._then = self._then or ("exit" if trial else "continue")
        least = steps_needed(self._bench.session.measure, self._bench.session.communicator.world > 1)
        if steps is not None and steps < least:
            self._too_short(f"the training has {steps:,.0f} steps, and the measurement needs at least {least}", advice)

    def next_step(self) -> bool:
        """Return whether a timed step begins here; the one before ends. After the last, the record is written."""
        if self.over:
            return False
        if self.bench.step():
            self._samples, self._loss = 0, None
            return True
        self.finish()
        return False

    def batch(self, batch: Any) -> None:
        """Count a batch, or one part of the batch where gradients are accumulated, into the step that runs now.

        Raises:
            ValueError: it has no clear number of samples.
            WorkloadError: it has no tokens, and tokens are what is counted.
        """
        size = batch_size(batch)
        if size is not None:
            self.samples(size)
        if self._unit == "tokens":
            tokens = batch_tokens(batch)
            if tokens is None:
                raise WorkloadError("unit='tokens': a batch has no integers of (samples, positions), as input_ids")
            self.bench.tokens(tokens)

    def samples(self, count: int) -> None:
        """Add so many samples to the running step."""
        self._samples += count
        self.bench.counted(self._samples)

    def loss(self, value: Any) -> None:
        """Add the loss of one part of the step's batch to that of the other parts."""
        if value is not None:
            self._loss = value if self._loss is None else self._loss + value
            self.bench.loss(self._loss)

    def finish(self) -> None:
        """Write the record, and leave the process where that was agreed."""
        self.bench.finish(self._closing())
        self.over = True
        if self._then == "exit":
            leave()

    def training_ended(self, advice: str) -> None:
        """Handle the end of the framework's loop: if it came before the last window, say so.

        Raises:
            WorkloadError: too early, in a trial.
        """
        if self.running and self.bench.complete:
            self.finish()
        elif self.running:
            self._too_short("the training ended before all windows were measured", advice)
            self.over = True
            self.bench.finish(self._closing())

    def _too_short(self, why: str, advice: str) -> None:
        text = f"{why}; {advice} (a trial ends by itself when all is measured)"
        if self.bench.session.trial is not None:
            self.over = True
            raise WorkloadError(text)
        print(f"scalecurve: {text}", file=sys.stderr)


def leave() -> None:
    """End this process well: what follows the last window of a trial (evaluation, epochs) is of no use to it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
    raise SystemExit(0)


def caller(kind: type[T]) -> T | None:
    """Return the nearest ``self`` of this kind among those whose methods are running.

    Callbacks of Transformers and Keras are not handed the object whose loop calls them.
    """
    return next((value for value in _locals_of_callers("self") if isinstance(value, kind)), None)


def local_of_caller(name: str) -> Any:
    """Return the variable of this name of the nearest function that has one; None without one."""
    return next(_locals_of_callers(name), None)


def _locals_of_callers(name: str) -> Iterator[Any]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if name in frame.f_locals:
            yield frame.f_locals[name]
        frame = frame.f_back
