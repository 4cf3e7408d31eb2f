"""The training loop of a script, seen from its optimizer updates: a ``Bench`` whose steps end with them."""

import sys
import weakref
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from scalecurve_api.spec.measure import Measure
from scalecurve_worker.integrations.instrument.leaving import PAGE, leave, refuse, script
from scalecurve_worker.integrations.instrument.optimizers import StepEnds, count_distinct, trained_model
from scalecurve_worker.integrations.instrument.samples import INDICES, StepSamples
from scalecurve_worker.monitor.metrics import MetricsError
from scalecurve_worker.process.failure import WorkloadError, report_uncaught
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder, read_trial
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.tcp import CommunicatorError
from scalecurve_worker.sdk.batches import batch_size, elements_of
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.schedule import steps_needed
from scalecurve_worker.torch.attach import attach_script

_MOST_UNCOUNTED = 3
_STEPS_OF_TORCH = "torch/optim/optimizer.py"


class Loop:
    """Measures the loop of this process, unless the program joins the trial itself."""

    def __init__(self) -> None:
        self.optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self.updates = 0
        self._order = StepEnds()
        self._samples = StepSamples()
        self._bench: Bench | None = None
        self._model: nn.Module | None = None
        self.taking = _Depth()
        self._mode = True
        self._nested: list[int] = []
        self._training_data: dict[int, object] = {}
        self._latest_data: tuple[int, object] | None = None
        self._passes: dict[int, bool] = {}
        self._scaled = False
        self._uncounted = 0
        self._aside = False
        self._complete = False

    # Updates

    def begin_update(self, optimizer: object) -> None:
        """Begin an update; some consist of others (ZeRO, Horovod, DeepSpeed), and the outermost counts."""
        if self._nested and not _inside_a_step():
            self._nested.clear()  # an update that raised
        self._nested.append(id(optimizer))

    def end_update(self, optimizer: object, alone: bool = False, skipped: bool = False) -> None:
        """End an update; ``alone`` where it is known to be the one that ends a step."""
        if self._nested:
            self._nested.pop()
        if self._nested:
            return
        if skipped:
            return self.skip_update(optimizer)
        self.updates += 1
        if self._aside or self._complete:
            return self._again()
        if self._order.ends_step(id(optimizer), lambda: 1 if alone else count_distinct(self.optimizers)):
            self._end_step(optimizer)

    def skip_update(self, optimizer: object) -> None:
        """Handle a skipped update, whose gradients were not finite: the step counts, its samples do not."""
        if self._bench is not None and id(optimizer) == self._order.last and not self._aside:
            self._samples.end_step()
            self._next(0)

    # Data, model, loss

    def take(self, batches: Any, batch: object) -> None:
        """Record a batch taken from the iterator of a DataLoader, unless it was taken outside training."""
        if self._aside or self._complete:
            return
        data = batches._dataset
        if self._evaluates(data) or not torch.is_grad_enabled():
            return
        self._latest_data = (id(data), data)
        if batches._num_yielded == 1 and self._passes.pop(id(data), False):
            self._samples.drop(id(data))
        self._passes[id(data)] = True
        size = taken_samples(batches, batch, self._bench.samples_per_step if self._bench else None)
        if size is not None:
            self._samples.take(size, id(data))
        if self._bench is not None and not self._bench.bare:
            self._bench.observe(batch)

    def open_loader(self, data: object) -> None:
        """Handle an iterator of a DataLoader that is about to be made, which may take long."""
        if not self._aside and not self._complete:
            self._evaluates(data)

    def exhaust(self, batches: Any) -> None:
        """Handle an iterator of a DataLoader that has given its last batch."""
        self._passes.pop(id(batches._dataset), None)

    def loss(self, value: Any) -> None:
        """Record a loss that ``backward`` is called on; ``scaled`` ones were noted before they were scaled."""
        scaled, self._scaled = self._scaled, False
        if self._bench is None or self._aside or self._bench.bare:
            return
        self._bench.backward()
        if not scaled and value.numel() == 1:
            self._bench.loss(value)

    def unscaled_loss(self, value: Any) -> None:
        """Record a loss that is about to be scaled for fp16."""
        if self._bench is not None and not self._aside and getattr(value, "numel", lambda: 0)() == 1:
            self._bench.loss(value)
            self._scaled = True

    # Begin and end

    def step_aside(self) -> None:
        """Step aside, as the program joins the trial by itself."""
        self._aside = True
        if self._bench is not None:
            self._bench.abandon()
            self._bench = None

    def unfinished(self) -> str | None:
        """Return why nothing, or not enough, was measured when the program ends; None where that is not ours to say."""
        if self._aside or self._complete:
            return None
        if self._bench is None and not self.updates:
            return (
                f"{script()} ended without an optimizer step of torch, so there was nothing to time: set "
                f"workload.instrument: log to read its own numbers, or call the SDK in it ({PAGE})"
            )
        trial = read_trial()
        measure = trial.measure if trial else Measure()
        several = trial is not None and trial.point.workers > 1
        return (
            f"{script()} ended after {self.updates} optimizer steps, before every window was measured: it needs about "
            f"{1 + steps_needed(measure, several)}; train longer (more epochs or data), or lower "
            "measure.windows, measure.stepsPerWindow or measure.warmupSteps"
        )

    def _evaluates(self, data: object) -> bool:
        """Whether what is read now is read for an evaluation: time stands still until training reads again."""
        if self._model is None or self._bench is None:
            return False
        evaluates = self._model.training != self._mode and id(data) not in self._training_data
        if evaluates:
            self._bench.pause()
        else:
            self._bench.resume()
        return evaluates

    def _end_step(self, optimizer: object) -> None:
        if self._latest_data is not None:
            self._training_data[self._latest_data[0]] = self._latest_data[1]
        if self._bench is None:
            self._begin(optimizer)
            return
        samples = self._samples.end_step()
        self._uncounted = self._uncounted + 1 if samples is None and not self._bench.bare else 0
        if self._uncounted > _MOST_UNCOUNTED:
            refuse(
                f"the samples of a step of {script()} cannot be counted: it takes no batch from a torch DataLoader, "
                f"and the inputs of its model have no clear batch size; call the SDK in it, which is told ({PAGE})"
            )
        self._next(samples)

    def _begin(self, optimizer: object) -> None:
        model = optimizer if isinstance(optimizer, nn.Module) else trained_model(self.optimizers)
        self._model = model
        self._mode = model is None or model.training  # some are fine-tuned in the mode of evaluation
        report_uncaught(out_folder(), identify().rank)
        ours, Session.before_join = Session.before_join, lambda: None
        try:
            # How many steps follow the last window is not known, and it cannot be asked when the script has ended.
            self._bench = attach_script(model, None, "samples", sectioned=False)
        except (WorkloadError, CommunicatorError, MetricsError) as error:
            refuse(str(error))
        Session.before_join = ours
        if model is not None:
            counted = next(iter(model)) if isinstance(model, nn.ModuleList) else model
            if getattr(counted, "_compiled_call_impl", None) is None:
                counted.register_forward_pre_hook(self._forward, with_kwargs=True)
        self._samples.forget()
        self._bench.step()

    def _next(self, samples: int | None) -> None:
        assert self._bench is not None
        if samples is not None:
            self._bench.counted(samples)
        if not self._bench.step():
            self._bench.finish()
            self._complete = True
            leave(self._bench.session.communicator, self._bench.total_pause_s)

    def _again(self) -> None:
        if self._complete:
            # The script has caught its end.
            raise SystemExit(0)

    def _forward(self, model: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if self._bench is None or self._complete:
            return
        if not torch.is_grad_enabled():
            if model.training != self._mode:
                self._bench.pause()
            return
        if model.training != self._mode:
            return
        self._bench.resume()
        if self._bench.bare:
            return self._samples.run(None)
        inputs = [*arguments, *keywords.values()]
        self._bench.forward(elements_of(inputs))
        try:
            size = batch_size(inputs, self._bench.samples_per_step)
        except ValueError:
            size = None
        self._samples.run(size)


def taken_samples(batches: Any, batch: object, planned: int | None) -> int | None:
    """Count the samples of the batch that a DataLoader's iterator has just given; None where they cannot be told.

    The sampler's indices are exact, whatever was made of their samples; without them the batch tells, or else the
    loader's batch size does.
    """
    if indices := batches.__dict__.get(INDICES):
        return int(indices.popleft())
    size: int | None = getattr(batches._index_sampler, "batch_size", None)
    try:
        return batch_size(batch, planned) or size
    except ValueError:
        return size


class _Depth:
    """How deep a call is in others of its kind; true inside of one."""

    def __init__(self) -> None:
        self._depth = 0

    def __bool__(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


def _inside_a_step() -> bool:
    """Whether the call that has begun now is made by another update."""
    frame, steps = sys._getframe(), 0
    while frame is not None and steps < 2:
        code = frame.f_code
        steps += code.co_name == "wrapper" and code.co_filename.endswith(_STEPS_OF_TORCH)
        steps += 2 * (code.co_name == "_measured_model_step")
        frame = frame.f_back  # type: ignore[assignment]
    return steps > 1
