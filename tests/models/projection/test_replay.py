"""Two streams, by hand."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.projection.projection import replay
from tests.models.projection.programs import program


def step_s(work: Sequence[Sequence[int]], after: Sequence[int], work_s: list[float], exchange_s: list[float]) -> float:
    made = program([(1, waits) for waits in work], [(1, each) for each in after])
    return replay(made, work_s, exchange_s).step_s


def test_an_exchange_is_hidden_behind_work_that_does_not_wait_for_it():
    assert step_s([[], [], [0]], [0], [2, 5, 1], [4]) == 8


def test_what_outlasts_the_work_is_exposed():
    played = replay(program([(1, []), (1, []), (1, [0])], [(1, 0)]), [2, 3, 1], [4])
    assert (played.step_s, played.compute_s, played.exchange_s, played.exposed_s) == (7, 6, 4, 1)


def test_exchanges_follow_one_another():
    # The first ends at 1 + 4 = 5, the second, ready at 2, at 9; the last work follows.
    assert step_s([[], [], [0, 1]], [0, 1], [1, 1, 1], [4, 4]) == 10


def test_a_gather_before_the_first_work_is_exposed_and_the_next_one_is_not():
    # As FSDP does it: the second gather runs beside the work that reads the first.
    assert step_s([[0], [1]], [-1, -1], [5, 5], [3, 4]) == 13


def test_an_exchange_that_nobody_reads_still_ends_in_the_step():
    assert step_s([[]], [0], [1], [4]) == 5


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=8))
def test_a_step_takes_no_less_than_each_stream_and_no_more_than_both(pairs: list[tuple[float, float]]):
    work = [(1.0, []) for _ in pairs] + [(1.0, range(len(pairs)))]
    made = program(work, [(1, index) for index in range(len(pairs))])
    computed, exchanged = [each for each, _ in pairs], [each for _, each in pairs]
    played = replay(made, [*computed, 0.0], exchanged)
    both = sum(computed) + sum(exchanged)
    assert max(sum(computed), sum(exchanged)) - 1e-9 <= played.step_s <= both + 1e-9
