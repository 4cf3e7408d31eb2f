from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.rank import WindowKind
from scalecurve_api.spec.measure import Measure
from scalecurve_worker.steps.schedule import (
    ENOUGH_S,
    ENOUGH_STEPS,
    LEAD_STEPS,
    MOST_BARE,
    SETTLING_STEPS,
    Block,
    Schedule,
    block_steps,
    count_sectioned_steps,
    enough_steps,
    is_stable,
    rule,
    slowest,
)


def blocks_of(schedule: Schedule, times: Callable[[Block, int], Sequence[float]]) -> list[Block]:
    """Run a schedule to its end; ``times`` gives step times of a warm-up block by the steps before it."""
    found: list[Block] = []
    answer: Sequence[float] = ()
    while (block := schedule.next_block(answer)) is not None:
        answer = times(block, sum(each.steps for each in found)) if block.judges_warmup else ()
        found.append(block)
    return found


def steady(block: Block, before: int) -> list[float]:
    return [0.01] * block.steps


def test_steady_steps_end_warm_up_as_soon_as_asked() -> None:
    schedule = Schedule(Measure(warmup_steps=20, windows=2, steps_per_window=50))
    assert blocks_of(schedule, steady) == [
        Block(WindowKind.warmup, 10, -1),
        Block(WindowKind.warmup, 10, -1),
        Block(WindowKind.train, 50, 0),
        Block(WindowKind.train, 50, 1),
    ]
    assert schedule.warmup is not None
    assert (schedule.warmup.steps, schedule.warmup.stable) == (20, True)


def test_steps_that_get_faster_are_waited_for() -> None:
    def speeding_up(block: Block, before: int) -> list[float]:
        return [max(0.01, 0.1 - 0.001 * (before + i)) for i in range(block.steps)]

    schedule = Schedule(Measure(warmup_steps=20, max_warmup_steps=500))
    blocks_of(schedule, speeding_up)
    assert schedule.warmup is not None
    assert schedule.warmup.stable
    assert 90 < schedule.warmup.steps <= 120


def test_steps_that_never_settle_are_given_up_on() -> None:
    schedule = Schedule(Measure(warmup_steps=20, max_warmup_steps=95))
    blocks_of(schedule, lambda block, before: [1.2**before] * block.steps)
    assert schedule.warmup is not None
    assert (schedule.warmup.steps, schedule.warmup.stable) == (95, False)


def test_kinds_take_turns_and_settle() -> None:
    schedule = Schedule(Measure(warmup_steps=0, max_warmup_steps=0, windows=2, steps_per_window=9), WindowKind.plain)
    assert blocks_of(schedule, steady) == [
        Block(WindowKind.train, 9, 0),
        Block(WindowKind.plain, SETTLING_STEPS, -1),
        Block(WindowKind.plain, 9, 1),
        Block(WindowKind.train, SETTLING_STEPS, -1),
        Block(WindowKind.train, 9, 2),
        Block(WindowKind.plain, SETTLING_STEPS, -1),
        Block(WindowKind.plain, 9, 3),
    ]


@given(
    warmup=st.integers(0, 60),
    most=st.integers(0, 120),
    windows=st.integers(1, 6),
    steps=st.integers(1, 20),
    alternate=st.sampled_from([None, WindowKind.plain, WindowKind.no_communication]),
    times=st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=7),
)
def test_every_window_is_measured_once_in_order(
    warmup: int, most: int, windows: int, steps: int, alternate: WindowKind | None, times: list[float]
) -> None:
    measure = Measure(warmup_steps=warmup, max_warmup_steps=most, windows=windows, steps_per_window=steps)
    schedule = Schedule(measure, alternate)
    found = blocks_of(schedule, lambda block, before: (times * 20)[: block.steps])
    measured = [block for block in found if block.measured]
    assert [block.window for block in measured] == list(range(windows * (2 if alternate else 1)))
    assert sum(block.kind is WindowKind.train for block in measured) == windows
    assert all(block.steps == steps for block in measured)
    assert all(block.steps > 0 for block in found)
    assert schedule.warmup is not None
    assert min(warmup, most) <= schedule.warmup.steps <= most
    assert schedule.warmup.steps == sum(block.steps for block in found if block.judges_warmup)


def test_noise_is_not_taken_for_change_but_a_jump_is() -> None:
    noisy = [0.010, 0.014, 0.009, 0.013, 0.011, 0.012, 0.0095, 0.0135, 0.010, 0.0125]
    assert is_stable(noisy, [value * 1.08 for value in noisy])
    assert not is_stable([0.010] * 10, [0.0108] * 10)
    assert not is_stable([value * 1.4 for value in noisy], noisy)


def test_the_rule_says_what_happens() -> None:
    assert rule(Measure(warmup_steps=20, max_warmup_steps=20)) == "exactly 20 steps"
    assert "at least 20 steps" in rule(Measure(warmup_steps=20))
    assert block_steps(Measure(warmup_steps=20)) == 10
    assert block_steps(Measure(warmup_steps=3)) == 5


def test_slowest_rank_by_step() -> None:
    assert slowest([[1.0, 5.0], [2.0, 4.0]]) == [2.0, 5.0]


@given(st.floats(1e-6, 100), st.integers(1, 28))
def test_observed_steps_are_bounded_by_time(step_s: float, complete_after: int) -> None:
    """Of a program that shows enough at once, 4 steps are added at either end, or one where those took over 1 s."""
    numbers: list[int] = []

    def observed(steps: int) -> bool:
        numbers.append(steps)
        return steps >= complete_after and enough_steps(steps, steps * step_s)

    schedule = Schedule(Measure(warmup_steps=0, max_warmup_steps=0, windows=1, steps_per_window=9), observed=observed)
    blocks = [block for block in blocks_of(schedule, steady) if block.observed]
    half = len(blocks) // 2
    assert blocks[:half] == blocks[half:], "the same at both ends"
    steps = sum(block.steps for block in blocks[:half])
    assert numbers[:half] == numbers[half:]
    assert numbers[half - 1] == steps
    if complete_after == 1:
        assert steps == (1 if ENOUGH_STEPS * step_s > ENOUGH_S else ENOUGH_STEPS)
    else:
        assert steps >= complete_after, "a program that averages now and then is waited for"


@given(st.booleans(), st.integers(1, 40))
def test_the_profiler_pauses_for_a_step_between_two_sessions(traced: bool, complete_after: int) -> None:
    """One that begins in the hook in which another ended makes torch write to freed memory."""
    measure = Measure(warmup_steps=0, max_warmup_steps=0, windows=1, steps_per_window=9)
    schedule = Schedule(measure, observed=lambda steps: steps >= complete_after, traced=lambda: traced)
    blocks = blocks_of(schedule, steady)
    profiled = [block.observed or block.traced for block in blocks]
    assert not any(one and following for one, following in itertools.pairwise(profiled))
    assert [block.anew for block in blocks if block.observed].count(True) == 2, "before and after the windows"
    assert sum(profiled) >= 2 + traced


def test_sections_come_after_the_windows_and_are_as_many_as_there_is_time_for() -> None:
    measure = Measure(warmup_steps=0, max_warmup_steps=0, windows=1, steps_per_window=9)
    schedule = Schedule(measure, traced=lambda: True, sectioned=lambda: 2)
    assert blocks_of(schedule, steady)[-2:] == [Block(WindowKind.train, 2, -1, sectioned=True)] * 2
    assert [count_sectioned_steps(step_s) for step_s in (0, 0.001, 0.15, 60)] == [20, 20, 10, 1]


@given(windows=st.integers(1, 40), per_window=st.integers(1, 200), alternates=st.booleans(), seed=st.integers(0, 99))
def test_bare_and_instrumented_steps_take_turns_within_their_share(
    windows: int, per_window: int, alternates: bool, seed: int
) -> None:
    measure = Measure(warmup_steps=0, max_warmup_steps=0, windows=windows, steps_per_window=per_window)
    blocks = blocks_of(Schedule(measure, WindowKind.plain if alternates else None, seed=seed), steady)
    taken = [block for block in blocks if block.in_turn]
    timed = sum(block.steps for block in blocks if block.measured and not block.in_turn)
    bare = [block for block in taken if block.kind is WindowKind.bare]
    assert sum(block.steps + LEAD_STEPS for block in bare) <= MOST_BARE * timed
    assert bool(taken) == (timed >= 40)
    for four in zip(*[iter(taken)] * 4, strict=True):
        first, second = (block.kind is WindowKind.bare for block in four[:2])
        assert [block.kind is WindowKind.bare for block in four] == [first, second, second, first]
        assert first != second
    assert [block.window for block in blocks if block.measured] == list(range(windows * (1 + alternates) + len(taken)))


def test_turns_are_drawn_by_the_seed_and_by_nothing_else() -> None:
    def kinds(seed: int | None) -> str:
        measure = Measure(windows=40)
        taken = [block for block in blocks_of(Schedule(measure, seed=seed), steady) if block.in_turn]
        return "".join(block.kind.value[0] for block in taken)

    assert kinds(1) == kinds(1) != kinds(2)
    assert {kinds(seed)[:4] for seed in range(20)} == {"biib", "ibbi"}
    assert kinds(None) == ""
