"""The first screen's figures: losses that add up, and a verdict that follows from what was and was not shown."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.curves.compute import scaling
from scalecurve.curves.losses import COMMUNICATION, COMPUTE, INPUT, KEPT, UNKNOWN, StepShares, losses
from scalecurve.curves.results import PointResult, SeriesResult, TrialCounts
from scalecurve.render.labels import brief
from scalecurve.reporting.answer import answer
from scalecurve.reporting.belief import NO, ONE_SESSION, WITH_CARE, YES, belief
from scalecurve.reporting.findings import analyze
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import InvalidReason, Point, TrialPhase
from tests.analysis.curves.test_doubts import custom, unseen
from tests.analysis.synthetic import Truth, experiment, write_bundle

EVIDENCE = Path(__file__).parents[3] / "docs" / "evidence" / "h200"
THREE = TrialCounts(3, 3, 0, 0, 0, 0)


def exactly(value: float) -> Estimate:
    return Estimate(value, value * 0.99, value * 1.01, 0.95, Method.REPETITIONS, 3)


def point(workers: int, step_s: float, batch: float = 64, **more: object) -> PointResult:
    spec = Point(
        mode=Mode.weak,
        workers=workers,
        nodes=1,
        workers_per_node=workers,
        global_batch=int(batch * workers),
        batch_per_worker=int(batch),
        series="weak",
        name=f"weak-{workers}",
    )
    values = {
        "throughput": exactly(batch * workers / step_s),
        "step_s": exactly(step_s),
        "effective_batch": batch * workers,
    }
    return PointResult(spec, THREE, **(values | more))  # type: ignore[arg-type]


def curve(*points: PointResult) -> SeriesResult:
    base = points[0]
    assert base.throughput
    rates = [p.throughput.value / base.throughput.value for p in points if p.throughput]
    compared = (
        replace(p, speedup=exactly(rate), efficiency=exactly(rate / p.workers * base.workers))
        for p, rate in zip(points, rates, strict=True)
    )
    return SeriesResult("b", "weak", Mode.weak, base.workers, "samples", True, tuple(compared), "", ())


def shares(bar: StepShares) -> dict[str, float]:
    return {term.kind: term.share for term in bar.terms}


def test_a_step_that_grows_by_its_communication_loses_it_there() -> None:
    bar = losses(curve(point(1, 0.08), point(4, 0.1, exposed_share=exactly(0.2))))
    assert bar is not None
    assert shares(bar) == pytest.approx({KEPT: 0.8, COMMUNICATION: 0.2, COMPUTE: 0.0})
    assert bar.largest is not None
    assert bar.largest.kind == COMMUNICATION


def test_a_wait_for_data_is_told_from_the_rest() -> None:
    bar = losses(curve(point(1, 0.08, loader_s=0.01), point(2, 0.1, loader_s=0.03, exposed_share=exactly(0.0))))
    assert bar is not None
    assert shares(bar) == pytest.approx({KEPT: 0.8, COMMUNICATION: 0.0, INPUT: 0.2, COMPUTE: 0.0})


def test_what_was_not_measured_is_not_attributed() -> None:
    bar = losses(curve(point(1, 0.08), point(2, 0.1)))
    assert bar is not None
    assert shares(bar) == pytest.approx({KEPT: 0.8, UNKNOWN: 0.2})


def test_a_smaller_batch_is_named() -> None:
    bar = losses(curve(point(1, 0.1, batch=64), point(2, 0.08, batch=32, exposed_share=exactly(0.1))))
    assert bar is not None
    assert bar.terms[-1].label == "slower computing, at 32 per worker instead of 64"


def test_no_bar_above_ideal_and_none_for_points_that_do_not_count() -> None:
    assert losses(curve(point(1, 0.1), point(2, 0.09))) is None
    fake = point(2, 0.12, doubts=(InvalidReason.no_communication,))
    bar = losses(curve(point(1, 0.1), fake))
    assert bar is not None
    assert (bar.workers, bar.against) == (1, None)


@given(
    base=st.floats(0.01, 10),
    growth=st.floats(1.0, 20),
    talks=st.floats(0, 1),
    waits=st.floats(0, 1),
    batch=st.sampled_from([16.0, 64.0]),
)
def test_the_terms_add_up_to_the_step(base: float, growth: float, talks: float, waits: float, batch: float) -> None:
    last = point(4, base * growth, batch, exposed_share=exactly(talks), loader_s=waits * base * growth)
    bar = losses(curve(point(1, base, loader_s=0.0), last))
    if bar is not None:
        assert sum(term.share for term in bar.terms) == pytest.approx(1)


def test_names_keep_what_tells_them_apart() -> None:
    names = ["weak optimizer.learningRate=0.1", "weak optimizer.learningRate=0.2"]
    assert list(brief(names, ["weak", "weak"]).values()) == ["learningRate=0.1", "learningRate=0.2"]
    clash = ["strong a.size=1 b.size=2", "weak a.size=1 b.size=2"]
    assert list(brief(clash, ["strong", "weak"]).values()) == clash
    assert list(brief(["weak"], ["weak"]).values()) == ["weak"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a.x", "b.x", "c.y"]), st.integers(0, 3)).map(
            lambda pair: f"weak {pair[0]}={pair[1]}"
        ),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
def test_different_names_stay_different(names: list[str]) -> None:
    assert len(set(brief(names, ["weak"] * len(names)).values())) == len(names)


def test_an_excluded_trial_asks_for_care(tmp_path: Path) -> None:
    spec = experiment("small", workers=[1, 2], repetitions=2, windows=2, steps_per_window=15)
    bundle = write_bundle(
        tmp_path / "b", spec, Truth(), endings={"weak-2-1x2-r1": (TrialPhase.failed, "RankFailed", "x")}
    )
    result = answer(analyze(open_bundles([bundle])))
    assert result.belief.word == WITH_CARE
    assert "1 trial excluded: 1 Failed (RankFailed)" in result.belief.cautions
    assert result.belief.facts[0] == "7 of 8 trials valid"
    assert not result.prices.priced


def test_one_session_is_believed_for_itself_alone() -> None:
    one, several = (analyze([open_bundle(EVIDENCE / name)]) for name in ("resnet50.zip", "sessions.zip"))
    assert belief(one).word == ONE_SESSION
    assert belief(several).word == WITH_CARE
    assert belief(replace(several, differences=())).word == YES


def test_what_is_negative_within_its_noise_joins_the_largest() -> None:
    (_, weak) = scaling([open_bundle(EVIDENCE / "resnet50.zip")]).series
    bar = losses(weak)
    assert bar is not None
    assert [term.label for term in bar.terms[1:]] == ["communication that is waited for, less faster computing"]
    assert sum(term.share for term in bar.terms) == pytest.approx(1)


def test_points_that_do_not_count_are_not_believed(tmp_path: Path) -> None:
    result = answer(analyze([open_bundle(custom(tmp_path / "b", unseen))]))
    assert result.belief.word == NO
    assert result.belief.cautions[0].startswith("unproved: 2 of 3 points: no communication was observed")


def test_a_record_that_was_changed_is_left_out_with_a_word(tmp_path: Path) -> None:
    spec = experiment("small", workers=[1, 2], repetitions=2, windows=2, steps_per_window=15)
    bundle = write_bundle(tmp_path / "b", spec, Truth())
    path = bundle / "trials" / "weak-2-1x2-r1" / "trial.json"
    path.write_text(path.read_text().replace('"throughput": ', '"throughput": 9', 1))
    result = answer(analyze(open_bundles([bundle])))
    assert result.belief.word == WITH_CARE
    assert "1 file could not be used" in result.belief.cautions


def test_a_bundle_in_which_no_trial_counts_is_not_believed_and_says_why() -> None:
    analysis = analyze(open_bundles([EVIDENCE.with_name("gpu") / "forced-sockets.zip"]))
    result = belief(analysis)
    assert result.word == NO
    assert result.cautions[0] == "no trial is valid"
    assert InvalidReason.wrong_transport.value in analysis.missing[0].why
    assert "NET/Socket" in analysis.missing[0].why
