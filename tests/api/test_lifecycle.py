"""The one function that decides, run against simulated engines: random event order, kills, lost actions."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from example_experiments import spec as example_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from scalebench_api.experiment import ExperimentSpec
from scalebench_api.lifecycle import (
    Clean,
    Collect,
    Decision,
    ExperimentPhase,
    Job,
    Observed,
    Start,
    Status,
    Stop,
    decide,
    rests,
)
from scalebench_api.trial import TrialPhase

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
        """As an engine asks that keeps counts of what rests, and a cursor into the plan."""
        begun = [name for name in self.trials if name in self.seen]
        fresh = [name for name in self.trials if name not in self.seen]
        resting = {n for n in begun if rests(self.spec, self.seen[n]) and self.seen[n].job in (Job.absent, Job.lost)}
        settled = Counter(self.seen[name].history[-1] for name in resting)
        coming = fresh[: self.spec.parallelism]
        window = [name for name in self.trials if name in coming or (name in self.seen and name not in resting)]
        return decide(self.spec, window, self.seen, settled=settled, unbegun=len(fresh) - len(coming))

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
    assert status.message.startswith(f"{status.done} of {status.total} trials done")


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


@settings(max_examples=120)
@given(policies, scripts, st.integers(0), st.integers(0), st.integers(0, 8))
def test_the_end_does_not_depend_on_the_order_of_events(
    policy: dict[str, int], script: list[list[TrialPhase]], one: int, other: int, kills: int
) -> None:
    spec, results = spec_of(**policy), scripted(script)
    first = World(spec, results, random.Random(one), kills=kills).run()
    second = World(spec, results, random.Random(other)).run()
    assert first.phase is second.phase
    if first.phase is ExperimentPhase.succeeded:
        assert first.phases == second.phases


@settings(max_examples=120)
@given(policies, scripts, st.integers(0), st.integers(0, 8))
def test_policy_is_kept(policy: dict[str, int], script: list[list[TrialPhase]], seed: int, kills: int) -> None:
    spec, results = spec_of(**policy), scripted(script)
    world = World(spec, results, random.Random(seed), kills=kills)
    status = world.run()
    for name in world.trials:
        history = world.view(name).history
        assert history.count(F) <= policy["retries"] + 1
        assert history.count(I) <= policy["retryInvalid"] + 1
        assert S not in history[:-1], "a trial that has succeeded is never run again"
    failed = sum(1 for phase in status.phases if phase is F)
    if failed > policy["maxFailedTrials"]:
        assert status.phase is ExperimentPhase.failed
    else:
        assert (status.phase is ExperimentPhase.succeeded) == (S in status.phases)
        assert all(
            phase is expected(results[name], policy) for name, phase in zip(world.trials, status.phases, strict=True)
        )


def expected(results: Sequence[TrialPhase], policy: Mapping[str, int]) -> TrialPhase:
    """What becomes of a trial by its policy alone."""
    history: list[TrialPhase] = []
    while True:
        history.append(results[min(len(history), len(results) - 1)])
        allowed = {F: policy["retries"], I: policy["retryInvalid"]}.get(history[-1], 0)
        if history.count(history[-1]) > allowed:
            return history[-1]


@settings(max_examples=150)
@given(policies, st.lists(views, min_size=1, max_size=6), st.integers(0))
def test_from_any_observed_state_there_is_an_end(policy: dict[str, int], seen: list[Observed], seed: int) -> None:
    trials = names(len(seen))
    world = World(spec_of(**policy), {name: [S] for name in trials}, random.Random(seed))
    world.seen = dict(zip(trials, seen, strict=True))
    world.run()


@settings(max_examples=120)
@given(policies, st.lists(views, min_size=1, max_size=6), st.integers(0))
def test_cancelling_ends_everything_from_anywhere(policy: dict[str, int], seen: list[Observed], seed: int) -> None:
    trials = names(len(seen))
    world = World(spec_of(**policy, cancel=True), {name: [S] for name in trials}, random.Random(seed))
    world.seen = dict(zip(trials, seen, strict=True))
    before = dict(world.seen)
    status = world.run()
    assert all(world.view(name).attempts == before[name].attempts for name in trials), "nothing was started"
    assert status.phase.final


@settings(max_examples=60)
@given(policies, st.lists(views, min_size=1, max_size=6), st.integers(0))
def test_suspending_starts_nothing_and_lets_what_runs_end(
    policy: dict[str, int], seen: list[Observed], seed: int
) -> None:
    trials = names(len(seen))
    world = World(spec_of(**policy, suspend=True), {name: [S] for name in trials}, random.Random(seed))
    world.seen = dict(zip(trials, seen, strict=True))
    for _ in range(120):
        decision = world.decide()
        assert not [action for action in decision.actions if isinstance(action, Start | Stop)]
        world.take(decision)
        world.event()
    assert not world.live()
    resumed = World(spec_of(**policy), world.results, world.random, seen=world.seen)
    assert resumed.run().phase.final


@given(policies, scripts, st.integers(0), st.integers(1, 60))
def test_cancelling_in_the_middle(
    policy: dict[str, int], script: list[list[TrialPhase]], seed: int, turns: int
) -> None:
    world = World(spec_of(**policy), scripted(script), random.Random(seed))
    for _ in range(turns):
        world.take(world.decide())
        world.event()
    started = len(world.started)
    world.spec = world.spec.model_copy(update={"cancel": True})
    status = world.run()
    assert len(world.started) == started
    assert status.phase.final


@settings(max_examples=300)
@given(
    policies,
    st.lists(st.one_of(st.none(), views), max_size=12),
    st.sampled_from([{}, {"cancel": True}, {"suspend": True}, {"cancel": True, "suspend": True}]),
    st.integers(0, 3),
    st.integers(0),
)
def test_a_window_decides_as_the_whole(
    policy: dict[str, int], seen: list[Observed | None], switches: dict[str, bool], ahead: int, seed: int
) -> None:
    spec, draw = spec_of(**policy, **switches), random.Random(seed)
    trials = names(len(seen))
    observed = {name: view for name, view in zip(trials, seen, strict=True) if view is not None}
    whole = decide(spec, trials, observed)

    resting = [name for name, view in observed.items() if rests(spec, view) and view.job in (Job.absent, Job.lost)]
    left_out = {name for name in resting if draw.random() < 0.8}
    fresh = [name for name in trials if name not in observed]
    unbegun = fresh[spec.parallelism + ahead :]
    window = [name for name in trials if name not in left_out and name not in unbegun]
    settled = Counter(observed[name].history[-1] for name in left_out)
    part = decide(spec, window, observed, settled=settled, unbegun=len(unbegun))

    assert part.actions == whole.actions
    assert replace(part.status, phases=()) == replace(whole.status, phases=())
    assert part.status.phases == tuple(whole.status.phases[trials.index(name)] for name in window)
    assert all(part.status.counts.values()), "no phase is named that no trial has"


@settings(max_examples=60)
@given(policies, scripts, st.integers(0), st.integers(0, 8))
def test_an_experiment_run_through_windows_ends_as_the_whole_would(
    policy: dict[str, int], script: list[list[TrialPhase]], seed: int, kills: int
) -> None:
    world = World(spec_of(**policy), scripted(script * 5), random.Random(seed), kills=kills)
    for _ in range(TURNS):
        whole, part = world.decide(), world.windowed()
        assert part.actions == whole.actions
        assert part.status == replace(whole.status, phases=part.status.phases)
        if part.status.phase.final and not part.actions:
            return
        world.take(part)
        world.event()
    raise AssertionError("no end")


# Examples, one for each sentence of the contract.


def one_turn(views: dict[str, Observed], count: int = 3, **changes: Any) -> Decision:
    return decide(spec_of(**changes), names(count), views)


def test_nothing_begun() -> None:
    decision = one_turn({})
    assert decision.actions == (Start("t0", 1),)
    assert decision.status.phase is ExperimentPhase.pending
    assert decision.status.phases == (TrialPhase.pending,) * 3
    assert decision.status.message == "0 of 3 trials done"


def test_trials_start_in_the_order_of_the_plan_as_room_comes() -> None:
    assert one_turn({}, parallelism=2).actions == (Start("t0", 1), Start("t1", 1))
    running = {"t0": Observed(1, (), Job.running)}
    assert one_turn(running, parallelism=2).actions == (Start("t1", 1),)
    assert one_turn(running).actions == ()


@pytest.mark.parametrize(
    ("view", "phase", "action"),
    [
        (Observed(), TrialPhase.pending, Start("t0", 1)),
        (Observed(1, (), Job.queued), TrialPhase.queued, None),
        (Observed(1, (), Job.starting), TrialPhase.starting, None),
        (Observed(1, (), Job.running), TrialPhase.running, None),
        (Observed(1, (), Job.ended), TrialPhase.collecting, Collect("t0")),
        (Observed(1, (), Job.lost), TrialPhase.pending, Start("t0", 2)),
        (Observed(1, (S,), Job.ended, collected=True), S, Clean("t0")),
        (Observed(1, (S,)), S, None),
        (Observed(1, (F,)), F, None),
        (Observed(1, (I,)), I, None),
        (Observed(1, (C,)), C, None),
    ],
)
def test_each_state_of_a_trial(view: Observed, phase: TrialPhase, action: Any) -> None:
    decision = one_turn({"t0": view}, count=1)
    assert decision.status.phases == (phase,)
    assert decision.actions == ((action,) if action else ())


@pytest.mark.parametrize(
    ("history", "policy", "again"),
    [
        ((F,), {"retries": 1}, True),
        ((F, F), {"retries": 1}, False),
        ((I,), {"retries": 1}, False),
        ((I,), {"retryInvalid": 1}, True),
        ((I, I), {"retryInvalid": 1}, False),
        ((F, I), {"retries": 1, "retryInvalid": 1}, True),
        ((F, I, F), {"retries": 1, "retryInvalid": 1}, False),
        ((F, S), {"retries": 5}, False),
        ((C,), {"retries": 5}, False),
    ],
)
def test_retries(history: tuple[TrialPhase, ...], policy: dict[str, int], again: bool) -> None:
    decision = one_turn({"t0": Observed(len(history), history)}, count=1, **policy)
    assert decision.actions == ((Start("t0", len(history) + 1),) if again else ())
    assert decision.status.phases[0].final is not again


def test_a_lost_attempt_is_no_failure() -> None:
    decision = one_turn({"t0": Observed(7, (F,), Job.lost)}, count=1, retries=1)
    assert decision.actions == (Start("t0", 8),)


def test_more_failures_than_allowed_end_the_experiment() -> None:
    failed = {name: Observed(1, (F,)) for name in ("t0", "t1")}
    assert one_turn(failed, maxFailedTrials=2).actions == (Start("t2", 1),)
    decision = one_turn(failed, maxFailedTrials=1)
    assert decision.actions == ()
    assert decision.status.phase is ExperimentPhase.failed
    assert decision.status.phases == (F, F, C)
    assert decision.status.message == (
        "3 of 3 trials done, 2 Failed, 1 Cancelled, stopped: more failed than failurePolicy.maxFailedTrials, 1"
    )


def test_what_runs_when_too_many_have_failed_may_end() -> None:
    seen = {"t0": Observed(1, (F,)), "t1": Observed(1, (), Job.running)}
    decision = one_turn(seen, maxFailedTrials=0, parallelism=2)
    assert decision.actions == ()
    assert decision.status.phase is ExperimentPhase.running


def test_a_retry_that_is_still_allowed_does_not_count_as_failed() -> None:
    decision = one_turn({"t0": Observed(1, (F,))}, maxFailedTrials=0, retries=1)
    assert decision.actions == (Start("t0", 2),)


def test_suspended_and_cancelled() -> None:
    running = {"t0": Observed(1, (S,)), "t1": Observed(1, (), Job.running)}
    assert one_turn(running, suspend=True) == Decision((), one_turn(running, suspend=True).status)
    assert one_turn(running, suspend=True).status.phase is ExperimentPhase.suspended
    cancelled = one_turn(running, cancel=True)
    assert cancelled.actions == (Stop("t1"),)
    assert cancelled.status.phase is ExperimentPhase.running
    assert cancelled.status.phases == (S, TrialPhase.running, C)
    both = one_turn({"t0": Observed(1, (S,)), "t1": Observed(1, (C,))}, cancel=True, suspend=True)
    assert both.status.phase is ExperimentPhase.cancelled


def test_cancelling_what_has_ended_changes_nothing() -> None:
    done = {name: Observed(1, (S,)) for name in names(3)}
    assert one_turn(done, cancel=True) == one_turn(done)
    assert one_turn(done).status.phase is ExperimentPhase.succeeded


def test_an_experiment_whose_trials_were_cancelled_is_not_called_succeeded() -> None:
    seen = {"t0": Observed(1, (S,)), "t1": Observed(1, (C,)), "t2": Observed(1, (S,))}
    assert one_turn(seen).status.phase is ExperimentPhase.cancelled


def test_invalid_trials_are_not_failures() -> None:
    done = {"t0": Observed(1, (S,)), **{name: Observed(1, (I,)) for name in names(3)[1:]}}
    decision = one_turn(done, maxFailedTrials=0)
    assert decision.status.phase is ExperimentPhase.succeeded
    assert decision.status.message == "3 of 3 trials done, 2 Invalid"


@pytest.mark.parametrize(
    ("settled", "changes", "phase", "message"),
    [
        ({}, {}, ExperimentPhase.pending, "0 of 10000 trials done"),
        ({S: 9998, I: 1}, {}, ExperimentPhase.running, "9999 of 10000 trials done, 1 Invalid"),
        ({S: 9999, I: 1}, {}, ExperimentPhase.succeeded, "10000 of 10000 trials done, 1 Invalid"),
        ({S: 5}, {"suspend": True}, ExperimentPhase.suspended, "5 of 10000 trials done"),
        ({S: 5}, {"cancel": True}, ExperimentPhase.cancelled, "10000 of 10000 trials done, 9995 Cancelled"),
        (
            {S: 5, F: 4},
            {"maxFailedTrials": 3},
            ExperimentPhase.failed,
            "10000 of 10000 trials done, 4 Failed, 9991 Cancelled, "
            "stopped: more failed than failurePolicy.maxFailedTrials, 3",
        ),
    ],
)
def test_ten_thousand_trials_of_which_few_are_named(
    settled: dict[TrialPhase, int], changes: dict[str, Any], phase: ExperimentPhase, message: str
) -> None:
    left = 10_000 - sum(settled.values())
    window = names(min(left, 2))
    decision = decide(spec_of(**changes), window, {}, settled=settled, unbegun=left - len(window))
    assert (decision.status.phase, decision.status.message) == (phase, message)
    assert decision.status.total == 10_000
    assert decision.actions == ((Start("t0", 1),) if not phase.final and not changes else ())


def test_no_trials() -> None:
    assert decide(spec_of(), [], {}).status.phase is ExperimentPhase.succeeded


def test_an_experiment_without_any_number_has_failed() -> None:
    spec = spec_of(maxFailedTrials=9)
    for phase in (F, I):
        status = decide(spec, names(2), {name: Observed(1, (phase,)) for name in names(2)}).status
        assert status.phase is ExperimentPhase.failed
        assert "no number was obtained" in status.message
    mixed = {"t0": Observed(1, (F,)), "t1": Observed(1, (S,))}
    assert decide(spec, names(2), mixed).status.phase is ExperimentPhase.succeeded
