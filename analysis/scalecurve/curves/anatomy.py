"""What a step of one trial is made of: seconds by cause, which add up to the step.

Of the ranks the *slowest* is the one whose own work (all but waiting for others) takes longest, and the *typical* one
is at the lower median. A step is then: the exchange that even the slowest waits for; how far the slowest is behind the
typical; and the typical one's own work by its sections. A wait that is hidden inside of a pass, as DDP's for its
all-reduce, is taken out of that pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.sections import WITHOUT_COMMUNICATION, SectionTimes
from scalecurve_api.record.trial_record import TrialRecord

EXCHANGE, SERVER, IMBALANCE, INPUT, TRANSFER = "communication", "server", "imbalance", "input", "transfer"
COMPUTE, OPTIMIZER, HOST, REST = "compute", "optimizer", "host", "unknown"
CAUSES = (EXCHANGE, SERVER, IMBALANCE, INPUT, TRANSFER, COMPUTE, OPTIMIZER, HOST, REST)


@dataclass(frozen=True)
class StepAnatomy:
    """Seconds of a step of one repetition.

    ``parts`` has those of each cause of ``CAUSES`` and adds up to ``step_s``. ``own_s`` are the seconds of each rank's
    own work, empty where that is not known; ``method`` says how it was found.
    """

    step_s: float
    parts: Mapping[str, float]
    own_s: tuple[float, ...] = ()
    method: str | None = None
    session: int = 0

    @property
    def load_balance(self) -> float | None:
        """POP's: the mean of the ranks' own work over the largest."""
        return math.fsum(self.own_s) / len(self.own_s) / max(self.own_s) if self.own_s else None

    @property
    def communication_efficiency(self) -> float | None:
        """POP's: the largest own work over the step."""
        return max(self.own_s) / self.step_s if self.own_s else None


def anatomy_of(record: TrialRecord) -> StepAnatomy | None:
    """Of a trial whose ranks have all timed the sections of steps; None of others."""
    ranks = [times for times in record.sections if times is not None and times.wall_ns > 0 and times.steps > 0]
    trained = [window for window in record.windows if window.kind is WindowKind.train and window.steps]
    if not ranks or len(ranks) < len(record.sections) or not trained:
        return None
    step_s = sum(window.wall_ns for window in trained) / sum(window.steps for window in trained) / 1e9
    session = record.trial.session
    own = [_own(times, step_s, len(ranks)) for times in ranks]
    known = [seconds for seconds in own if seconds is not None]
    if len(known) < len(own):
        return StepAnatomy(step_s, _sections(ranks[0], step_s, None), session=session)
    order = sorted(range(len(known)), key=lambda rank: (known[rank], rank))
    typical, slowest = order[(len(order) - 1) // 2], order[-1]
    waits = SERVER if ranks[typical].server_ns is not None else EXCHANGE
    parts = {
        **_sections(ranks[typical], step_s, known[typical]),
        waits: step_s - known[slowest],
        IMBALANCE: known[slowest] - known[typical],
    }
    method = ranks[typical].own_method or ("sections of the host" if len(ranks) > 1 else None)
    return StepAnatomy(step_s, parts, tuple(known), method, session)


def mean_parts(anatomies: Sequence[StepAnatomy]) -> dict[str, float]:
    """Mean seconds of each cause over repetitions."""
    return {cause: math.fsum(each.parts.get(cause, 0.0) for each in anatomies) / len(anatomies) for cause in CAUSES}


def _own(times: SectionTimes, step_s: float, ranks: int) -> float | None:
    """Seconds of a step in which a rank does not wait for others; None where a wait may be hidden."""
    if times.own_ns is not None:
        # Windows without communication have dropped DDP's only; what the program calls itself stayed.
        stayed = times.apart_ns or 0 if times.own_method == WITHOUT_COMMUNICATION else 0
        return (times.own_ns - stayed / times.steps) / 1e9
    waits = (times.seconds("communication") or 0.0) + (times.seconds("server") or 0.0)
    if ranks == 1 or times.server_ns is not None:
        return step_s - waits * step_s / times.step_s
    return None


def _sections(times: SectionTimes, step_s: float, own_s: float | None) -> dict[str, float]:
    """The own work of a rank by its sections, as if its sectioned steps had taken as long as the timed ones do.

    Where own work is not known the backward pass is left unexplained: communication may be inside.
    """
    scale = step_s / times.step_s
    spent = {name: (times.seconds(name) or 0.0) * scale for name in (INPUT, TRANSFER, "forward", "backward", OPTIMIZER)}
    parts = {cause: spent[cause] for cause in (INPUT, TRANSFER, OPTIMIZER)} | {HOST: times.host_s * scale}
    if own_s is None:
        return {**parts, COMPUTE: spent["forward"], REST: step_s - math.fsum(parts.values()) - spent["forward"]}
    told = ((times.seconds("communication") or 0.0) + (times.seconds("server") or 0.0)) * scale
    hidden = min(max(0.0, step_s - own_s - told), spent["forward"] + spent["backward"])
    parts[COMPUTE] = spent["forward"] + spent["backward"] - hidden
    return {**parts, REST: own_s - math.fsum(parts.values())}
