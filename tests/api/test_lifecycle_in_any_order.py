"""The one function that decides, run against simulated engines: random event order, kills, lost actions."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.lifecycle import ExperimentPhase, Job, Observed, Start, Stop, decide, is_terminal
from scalecurve_api.spec.trial import TrialPhase
from tests.api.simulated_engine import TURNS, F, I, S, World, names, policies, scripted, scripts, spec_of, views


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

    resting = [
        name for name, view in observed.items() if is_terminal(spec, view) and view.job in (Job.absent, Job.lost)
    ]
    left_out = {name for name in resting if draw.random() < 0.8}
    fresh = [name for name in trials if name not in observed]
    unbegun = fresh[spec.parallelism + ahead :]
    window = [name for name in trials if name not in left_out and name not in unbegun]
    settled = Counter(observed[name].history[-1] for name in left_out)
    part = decide(spec, window, observed, terminal=settled, not_started=len(unbegun))

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
