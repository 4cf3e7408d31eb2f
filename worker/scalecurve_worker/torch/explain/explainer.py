"""``TorchExplainer``: memory, FLOPs, traffic and exposed communication of a script's own torch model."""

import resource
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from scalecurve_api.record.rank import Traffic
from scalecurve_api.spec.measure import Measure
from scalecurve_worker.record.session import Facts
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.rendezvous.torch_store import backend_for
from scalecurve_worker.sdk.explainer import Alternate, Explainer
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch.device import data_parallel_of
from scalecurve_worker.torch.explain.kept_state import Copies, KeptState, NotKeptError, has_grad_scaler
from scalecurve_worker.torch.explain.sections import watch_program
from scalecurve_worker.torch.explain.step_flops import StepCounter, StepFlops
from scalecurve_worker.torch.explain.trace import METHOD, Trace, least, why_unmeasured
from scalecurve_worker.torch.explain.unsynced import Unsynced, state_of
from scalecurve_worker.torch.explain.wrappers import (
    count_parameters,
    count_trained,
    ddp_of,
    enclosing,
    wrapper_of,
)
from scalecurve_worker.torch.flops import FlopCountError, device_peak_flops
from scalecurve_worker.torch.observation import TorchObserver
from scalecurve_worker.torch.parameters import parameter_checksum

cuda_in_use: Callable[[], bool] = torch.cuda.is_initialized  # torch leaves it without types


class TorchExplainer(Explainer):
    """Of a script that has loaded torch; its model may come to light later than ``attach``.

    What it cannot find out is left open, with the reason in the record's ``options``.
    """

    def __init__(
        self, model: Any, device: torch.device, measure: Measure, observer: TorchObserver, *, sectioned: bool = True
    ) -> None:
        self._sectioned = sectioned
        self._model = model if isinstance(model, nn.Module) else None
        self._device = device
        self._measure = measure
        self._observer = observer
        self._communicator: Communicator | None = None
        self._counter = StepCounter()
        self._counting = self._replicated = False
        self._flops: list[tuple[StepFlops, int]] = []
        self._trace = Trace(device, measure)
        self._alternates = False
        self._copies: Copies | None = None
        self._memory: int | None = None
        self._notes: dict[str, str] = {}

    @property
    def counts(self) -> bool:
        return self._model is not None

    @property
    def traces(self) -> bool:
        return self._trace.requested or self._exposes

    @property
    def _exposes(self) -> bool:
        """Whether a trace is how exposed communication is found."""
        several = self._communicator is not None and self._communicator.world > 1
        return several and self._measure.exposed_communication and not self._alternates

    def model(self, model: Any) -> None:
        if isinstance(model, nn.Module):
            self._model = model
            self._check_device()

    def begin(self) -> None:
        self._check_device()
        if self._device.type == "cpu" and self._model is None and cuda_in_use():
            raise RuntimeError(
                "scalecurve.attach() came before the program used its GPU, which would not be timed: "
                "call attach(model) after model.to(device)"
            )

    def begin_count(self) -> None:
        if self._model is not None and not self._counting:
            self._counting = True
            # Passed before it was wrapped, as a callback is often handed the inner one.
            self._model = enclosing(self._model)
            self._observer.model(self._model)
            if self._measure.exposed_communication and ddp_of(self._model) is not None:
                self._copies = Copies(self._model)
        parallel = data_parallel_of(self._model)
        if parallel is not None and len(parallel.device_ids) > 1:
            self._replicated = True
            self._notes["flops"] = "not counted: nn.DataParallel's replicas run in threads of their own"
            return
        self._counter.begin(self._model)

    def end_count(self, samples: int) -> None:
        if self._replicated:
            return
        try:
            flops = self._counter.end()
        except FlopCountError as error:
            self._notes["flops"] = str(error)[:300]
            return
        if flops.note:
            self._notes["flops"] = flops.note
        if samples:
            self._flops.append((flops, samples))

    def alternate(self, communicator: Communicator) -> Alternate | None:
        self._communicator = communicator
        if communicator.world == 1 or not self._measure.exposed_communication:
            return None
        ddp, state, reason = ddp_of(self._model), None, ""
        try:
            state = self._state_to_keep(ddp)
        except NotKeptError as error:
            reason = str(error)[:300]
        reasons = [each for each in communicator.all_gather(reason) if each]
        if reasons or ddp is None or state is None:
            self._notes["exposedCommunication"] = f"not measured by no_sync: {reasons[0] if reasons else reason}"
            return None
        self._alternates = True
        return Unsynced(ddp, state)

    def window_opens(self) -> None:
        if self._memory is None and self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def window_closed(self) -> None:
        if self._device.type == "cuda":
            self._memory = max(self._memory or 0, torch.cuda.max_memory_allocated(self._device))
        elif self._memory is None:
            # Of the process, which from the next window on holds a copy of the model's state, too.
            self._memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @property
    def watches(self) -> bool:
        return self._sectioned and self._model is not None

    def watch_sections(self, sections: Sections) -> None:
        watch_program(sections, self._model, self._device)

    @property
    def exposed_share(self) -> float | None:
        return self._trace.share if self._exposes else None

    def begin_trace(self, steps: int) -> None:
        self._trace.begin(steps)

    def end_trace(self, wall_ns: int) -> None:
        self._trace.end(wall_ns)

    def checksum(self) -> str | None:
        """Compute a digest of the model's parameters as they are now. Collective where ranks hold shares."""
        return None if self._model is None else parameter_checksum(self._model)

    def explain(self, facts: Facts, communicator: Communicator) -> None:
        facts.backend = backend_for(self._device) or facts.backend
        facts.peak_memory_bytes = self._memory
        facts.traffic = self._traffic(facts.world)
        facts.options.update(self._notes)
        if self._model is not None:
            facts.strategy = wrapper_of(self._model)
            facts.parameters = count_parameters(self._model)
            facts.trained_parameters = count_trained(self._model)
        if self._flops:
            self._note_flops(facts)
        self._trace.note(facts, communicator)
        if not self._exposes:
            return
        if (share := least(communicator, self._trace.share)) is not None:
            facts.exposed_share, facts.exposed_method = share, METHOD
        if problem := why_unmeasured(communicator, self._trace.problem):
            before = self._notes.get("exposedCommunication", "not measured")
            facts.options["exposedCommunication"] = f"{before}; nor in the trace: {problem}"

    def _note_flops(self, facts: Facts) -> None:
        units, model = sum(samples for _, samples in self._flops), sum(flops.model for flops, _ in self._flops)
        facts.flops_per_sample = model / units
        passes = [(flops.model - flops.outside) / samples for flops, samples in self._flops]
        facts.flops_spread = [min(passes), max(passes)]
        if recomputed := sum(flops.recomputed for flops, _ in self._flops):
            facts.hardware_flops_per_sample = (model + recomputed) / units
        precisions = {flops.precision for flops, _ in self._flops}
        precision = precisions.pop() if len(precisions) == 1 else None
        facts.options["precision"] = precision or "mixed"
        if self._device.type == "cuda" and precision is not None:
            facts.peak_flops = device_peak_flops(torch.cuda.get_device_name(self._device), precision)

    def _state_to_keep(self, ddp: Any) -> KeptState:
        """What steps without communication change; raises ``NotKeptError`` where they cannot be run on this rank."""
        if self._model is None:
            raise NotKeptError("the model is not known: pass it to attach()")
        if ddp is None:
            wrapper = wrapper_of(self._model) or "no wrapper"
            compiled = ", compiled around it" if hasattr(self._model, "_orig_mod") else ""
            raise NotKeptError(f"it takes DistributedDataParallel around the model, and there is {wrapper}{compiled}")
        if not self._observer.reads:
            raise NotKeptError("the model that attach() got was not called in the observed steps")
        updates, least = self._observer.updates, 1 if has_grad_scaler() else self._observer.steps
        # A gradient scaler skips steps; else a step without an update only adds to a gradient.
        if not updates or min(updates.values()) < least:
            raise NotKeptError("a step of the loop is no update of every optimizer")
        return state_of(ddp, list(updates), self._copies)

    def _traffic(self, workers: int) -> Traffic | None:
        trained = self._model.parameters() if self._model is not None else ()
        elements = sum(parameter.numel() for parameter in trained if parameter.requires_grad)
        return self._observer.traffic(workers, elements) if elements else None

    def _check_device(self) -> None:
        first = next(self._model.parameters(), None) if self._model is not None else None
        if first is not None and first.device != self._device:
            raise RuntimeError(
                f"scalecurve.attach(model) came while the model was on {self._device}, and it trains on "
                f"{first.device}: call attach(model) after model.to(device)"
            )
