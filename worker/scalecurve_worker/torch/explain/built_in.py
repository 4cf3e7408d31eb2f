"""What explains a step of a built-in program beside its windows: its sections, and a trace of a few steps."""

import torch

from scalecurve_api.spec.measure import Measure
from scalecurve_worker.record.session import Facts
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.sdk.explainer import Explainer
from scalecurve_worker.sdk.sections import Sections
from scalecurve_worker.torch.explain.sections import watch_communication, watch_copies
from scalecurve_worker.torch.explain.step_flops import compiles
from scalecurve_worker.torch.explain.trace import METHOD, Trace, least, why_unmeasured
from scalecurve_worker.torch.training import Trainer


class TracingExplainer(Explainer):
    """Traces a few steps where the experiment asks for it, and tells nothing else."""

    def __init__(self, device: torch.device, measure: Measure) -> None:
        self._trace = Trace(device, measure)

    @property
    def traces(self) -> bool:
        return self._trace.requested

    def begin_trace(self, steps: int) -> None:
        self._trace.begin(steps)

    def end_trace(self, wall_ns: int) -> None:
        self._trace.end(wall_ns)

    def explain(self, facts: Facts, communicator: Communicator) -> None:
        self._trace.note(facts, communicator)


class BuiltInExplainer(TracingExplainer):
    """Of a trainer, which tells of its passes itself.

    A strategy with no step without communication is traced, as a program of anyone's is.
    """

    def __init__(self, trainer: Trainer, device: torch.device, measure: Measure, workers: int) -> None:
        super().__init__(device, measure)
        self._trainer = trainer
        self._device = device
        exposes = measure.exposed_communication and workers > 1
        self._exposes = exposes and trainer.wrapped.unexposed is not None and trainer.wrapped.remote is None

    @property
    def traces(self) -> bool:
        return super().traces or self._exposes

    @property
    def exposed_share(self) -> float | None:
        return self._trace.share if self._exposes else None

    @property
    def watches(self) -> bool:
        return True

    def watch_sections(self, sections: Sections) -> None:
        self._trainer.watch_sections(sections)
        if not compiles():
            watch_copies(sections, self._device)
        watch_communication(sections)

    def explain(self, facts: Facts, communicator: Communicator) -> None:
        super().explain(facts, communicator)
        if not self._exposes:
            return
        if (share := least(communicator, self._trace.share)) is not None:
            facts.exposed_share, facts.exposed_method = share, METHOD
            facts.options["exposedCommunication"] = f"traced: {self._trainer.wrapped.unexposed}"
        if problem := why_unmeasured(communicator, self._trace.problem):
            facts.options["exposedCommunication"] = (
                f"not measured: {self._trainer.wrapped.unexposed}; nor in the trace: {problem}"
            )
