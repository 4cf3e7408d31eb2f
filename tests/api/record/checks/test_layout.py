"""Runs of a layout that did not compute what one process computes."""

import pytest

from scalecurve_api.features.layouts.facts import Equality
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.verdict import judge
from tests.api.judged import of
from tests.api.rank_records import GOOD, rank_record, trial, with_facts

CHANGES = {"workload/parallelism": {"tensor": 2}, "workload/model": "llama_tiny"}
SAME = Equality(
    losses=[5.5, 5.25],
    reference=[5.5, 5.25],
    loss_tolerance=1e-4,
    gradient_error=1e-6,
    gradient_tolerance=1e-3,
    parameter="blocks.0.query.weight",
    parameters=9,
    how="2 steps",
)


def judged(**changes: object) -> tuple[bool | None, str]:
    laid_out = trial(CHANGES)
    degrees = laid_out.point.parallelism
    assert degrees is not None

    def rank(number: int) -> RankRecord:
        update = {"layout": degrees, "equality": SAME, **(changes if number else {})}
        return with_facts(rank_record(number, laid_out), **update)

    return of(judge(laid_out, {0: rank(0), 1: rank(1)}, GOOD), "WrongMath")


def differing(**changes: object) -> tuple[bool | None, str]:
    return judged(equality=SAME.model_copy(update=changes))


def test_wrong_math() -> None:
    passed, detail = judged()
    assert passed, detail
    assert detail.startswith("losses of 2 steps and gradients equal one process's (tensor=2)")
    assert differing(losses=[5.5, 5.26]) == (
        False,
        "rank 1: the loss of step 2 is 5.26, that of one process 5.25 (tolerance 0.0001, relative)",
    )
    assert differing(gradient_error=0.4) == (
        False,
        "rank 1: the gradient of blocks.0.query.weight differs from one process's by 0.4 of its norm (tolerance 0.001)",
    )


@pytest.mark.parametrize("losses", [[5.5], [5.5, float("nan")]])
def test_a_lost_or_unknown_loss_is_wrong_math(losses: list[float]) -> None:
    assert differing(losses=losses)[0] is False


def test_ranks_before_the_last_stage_compute_no_loss() -> None:
    assert differing(losses=[])[0] is True


def test_another_layout_than_the_points_is_wrong_math() -> None:
    passed, detail = judged(layout=None)
    assert (passed, detail) == (False, "the layout of rank 1 is none, expected tensor=2")


def test_what_one_process_cannot_train_is_not_compared() -> None:
    passed, detail = judged(equality=None)
    assert passed is None
    assert detail.startswith("rank 1: ")
