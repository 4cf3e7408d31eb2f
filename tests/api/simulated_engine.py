"""An engine as the one function that decides meets it: events in random order, kills, lost actions."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from scalecurve_api.lifecycle import Clean, Collect, Decision, Job, Observed, Start, Status, Stop, decide, is_terminal
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_api.text import count
from tests.api.example_experiments import spec as example_spec

S, F, I, C = TrialPhase.succeeded, TrialPhase.failed, TrialPhase.invalid, TrialPhase.cancelled  # noqa: E741
LIVE = (Job.queued, Job.starting, Job.running)
TURNS = 5000


def spec_of(**changes: Any) -> ExperimentSpec:
    policy = {name: changes.pop(name) for name in ("retries", "retryInvalid", "maxFailedTrials") if name in changes}
    return example_spec({**changes, "failurePolicy": policy})


def names(count: int) -> list[str]:
    return [f"t{index}" for index in range(count)]


@dataclass
class World:
    """Jobs as an engine finds them; events and actions come in random order, and any of them may be lost."""

    spec: ExperimentSpec
    results: Mapping[str, Sequence[TrialPhase]]
    random: random.Random
    kills: int = 0
    seen: dict[str, Observed] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    started: list[tuple[str, int]] = field(default_factory=list)

    @property
    def trials(self) -> list[str]:
        return list(self.results)

    def view(self, name: str) -> Observed:
        return self.seen.get(name, Observed())

    def live(self) -> list[str]:
        return [name for name in self.trials if self.view(name).job in LIVE]

    def decide(self) -> Decision:
        decision = decide(self.spec, self.trials, self.seen)
        assert decision == decide(self.spec, self.trials, dict(reversed(self.seen.items()))), "same view, same decision"
        self.check(decision)
        return decision

    def windowed(self) -> Decision:
        """As an engine asks that keeps counts of what is_terminal, and a cursor into the plan."""
        begun = [name for name in self.trials if name in self.seen]
        fresh = [name for name in self.trials if name not in self.seen]
        resting = {
            n for n in begun if is_terminal(self.spec, self.seen[n]) and self.seen[n].job in (Job.absent, Job.lost)
        }
        settled = Counter(self.seen[name].history[-1] for name in resting)
        coming = fresh[: self.spec.parallelism]
        window = [name for name in self.trials if name in coming or (name in self.seen and name not in resting)]
        return decide(self.spec, window, self.seen, terminal=settled, not_started=len(fresh) - len(coming))

    def check(self, decision: Decision) -> None:
        starts = [action for action in decision.actions if isinstance(action, Start)]
        busy = [name for name in self.trials if self.view(name).job not in (Job.absent, Job.lost)]
        assert len(busy) + len(starts) <= max(self.spec.parallelism, len(busy)), "never more than parallelism"
        assert len({action.trial for action in decision.actions}) == len(decision.actions), "one action for a trial"
        for start in starts:
            assert start.trial not in busy, "never two jobs of a trial"
            assert start.attempt == self.view(start.trial).attempts + 1
        if self.spec.suspend or self.spec.cancel:
            assert not starts
        if self.spec.cancel:
            stops = {action.trial for action in decision.actions if isinstance(action, Stop)}
            assert {name for name in self.live() if not self.view(name).collected} == stops
        check_status(decision.status, self.trials)

    def take(self, decision: Decision) -> None:
        """Carry the actions out; some are lost on the way, as when the engine is killed between them."""
        for action in decision.actions:
            if self.random.random() < 0.2:
                continue
            self.act(action)

    def act(self, action: Any) -> None:
        name, view = action.trial, self.view(action.trial)
        match action:
            case Start():
                assert (name, action.attempt) not in self.started, "never started twice"
                self.started.append((name, action.attempt))
                self.seen[name] = Observed(action.attempt, view.history, Job.queued)
            case Collect():
                phase = C if name in self.stopped else self.result(name, len(view.history))
                self.stopped.discard(name)
                job, collected = self.random.choice([(Job.absent, False), (Job.ended, True)])
                self.seen[name] = Observed(view.attempts, (*view.history, phase), job, collected)
            case Stop():
                self.stopped.add(name)
                self.seen[name] = replace(view, job=Job.ended)
            case Clean():
                self.seen[name] = replace(view, job=Job.absent, collected=False)

    def result(self, name: str, index: int) -> TrialPhase:
        results = self.results[name]
        return results[min(index, len(results) - 1)]

    def event(self) -> None:
        """Something happens to one job."""
        live = self.live()
        if not live:
            return
        name = self.random.choice(live)
        view = self.view(name)
        if self.kills and self.random.random() < 0.3:
            self.kills -= 1
            self.seen[name] = replace(view, job=self.random.choice([Job.lost, Job.absent]), collected=False)
            return
        later = [*LIVE, Job.ended]
        self.seen[name] = replace(view, job=self.random.choice(later[later.index(view.job) :]))

    def run(self) -> Status:
        """To the end: a final phase, and nothing left to do."""
        for _ in range(TURNS):
            decision = self.decide()
            if decision.status.phase.final and not decision.actions:
                assert not [name for name in self.trials if self.view(name).job in LIVE]
                return decision.status
            if self.random.random() < 0.5:
                self.take(decision)
            else:
                self.event()
        raise AssertionError(f"no end after {TURNS} turns: {decision}")


def check_status(status: Status, trials: Sequence[str]) -> None:
    assert status.total == len(status.phases) == len(trials)
    assert sum(status.counts.values()) == status.total
    assert status.done == sum(1 for phase in status.phases if phase.final)
    assert status.phase.final == (status.done == status.total)
    assert status.message.startswith(f"{status.done} of {count(status.total, 'trial')} done")


policies = st.fixed_dictionaries(
    {
        "retries": st.integers(0, 2),
        "retryInvalid": st.integers(0, 2),
        "maxFailedTrials": st.integers(0, 6),
        "parallelism": st.integers(1, 4),
    }
)
scripts = st.lists(st.lists(st.sampled_from([S, S, F, I]), min_size=1, max_size=4), min_size=1, max_size=6)
phases = st.sampled_from([S, F, I, C])
views = st.builds(
    lambda history, more, job, collected: Observed(len(history) + more, tuple(history), job, collected),
    st.lists(phases, max_size=4),
    st.integers(0, 2),
    st.sampled_from(list(Job)),
    st.booleans(),
)


def scripted(script: list[list[TrialPhase]]) -> dict[str, list[TrialPhase]]:
    return dict(zip(names(len(script)), script, strict=True))
