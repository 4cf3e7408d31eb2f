"""What a curve's headline says: why it bends, and when nothing is known."""

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import SeriesResult
from scalecurve.curves.tables import scaling_table, split_table
from scalecurve.render import formatting as spelling
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point, TrialPhase, TrialSpec
from tests.analysis.synthetic import Truth, experiment, with_windows, write_bundle


def strong(folder: Path, truth: Truth, seed: int = 0, **spec: object) -> SeriesResult:
    of = experiment(modes=["strong"], windows=3, steps_per_window=10, **spec)  # type: ignore[arg-type]
    (series,) = scaling([open_bundle(write_bundle(folder, of, truth, tables=False, seed=seed))]).series
    return series


def bent(point: Point) -> float:
    """4 workers: a fourth of the work at 80 % of the pace, and a tenth of the step by communication."""
    return 0.4 if point.workers == 1 else 0.4 / point.workers / 0.8 / 0.9


def communicates(point: Point) -> float:
    return 0.0 if point.workers == 1 else 0.1


def test_the_headline_says_why_a_curve_bends(tmp_path: Path):
    truth = Truth(step_s=bent, exposed_share=communicates, step_cv=0.001, repetition_cv=0.0005)
    series = strong(tmp_path, truth)
    last = series.points[-1]
    assert last.computing.value == pytest.approx(0.8, rel=0.01)
    assert last.efficiency.value == pytest.approx(0.72, rel=0.01)
    kept, share = (spelling.interval(value, as_percent=True) for value in (last.computing, last.exposed_share))
    batch = "at 64 per worker instead of 256"
    said = f"; compute alone would keep {kept} {batch}; exposed communication takes {share} of a step"
    assert series.headline.endswith(said)


def test_the_share_of_communication_has_one_definition(tmp_path: Path):
    """The headline's was relative to the unwrapped model, without interval: it left 95.3 % where 6.2 % were exposed."""

    def slower_wrapped(record: TrialRecord) -> TrialRecord:
        plain = [w.model_copy(update={"wall_ns": w.wall_ns * 9 // 10}) for w in record.windows if w.kind == "plain"]
        rest = [w for w in record.windows if w.kind != "plain"]
        return with_windows(record, rest + plain)

    of = experiment(modes=["strong"], windows=3, steps_per_window=10)
    truth = Truth(step_s=bent, exposed_share=communicates, step_cv=0.001, repetition_cv=0.0005)
    bundle = open_bundle(write_bundle(tmp_path, of, truth, tables=False, change=slower_wrapped))
    result = scaling([bundle])
    table = split_table(result)
    at = [column.name for column in table.columns].index("exposed_share")
    share = table.spelled()[-1][at]
    assert result.series[0].points[-1].exposed_share.value == pytest.approx(0.1, rel=0.01)
    assert f"exposed communication takes {share} of a step" in result.series[0].headline
    (drawn,) = [each for each in compose(analyze([bundle])).plots if each.name == "split"]
    for part in share.replace(")", "").split(" ("):
        assert part in html.unescape(drawn.svg)


def test_nothing_is_explained_that_was_not_lost(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.4 / p.workers, exposed_share=communicates, step_cv=0.01, repetition_cv=0.01)
    series = strong(tmp_path, truth)
    assert series.points[-1].efficiency.high > 1
    assert "would keep" not in series.headline


def test_an_interval_that_tells_nothing_is_not_known(tmp_path: Path):
    """Once it read 2,277 (0.099-52,520,826)."""
    series = strong(tmp_path, Truth(step_s=lambda p: 0.4 / p.workers**0.5, repetition_cv=3.0), seed=1)
    why = "not known: 3 repetitions differ too much"
    assert series.points[-1].speedup.unknown
    assert f"× speed-up on 4 workers (95 % interval {why}, within one session" in series.headline
    assert spelling.interval(series.points[-1].throughput).endswith(f" ({why})")


def in_sessions(folder: Path, count: int, device: str = "GPU-{session}", host: str = "vm") -> SeriesResult:
    """A bundle of several sessions: the plan's records again, as those of further sessions."""

    def of_session(session: int) -> Callable[[TrialRecord], TrialRecord]:
        used = device.format(session=session)

        def change(record: TrialRecord) -> TrialRecord:
            number = record.trial.repetition + 3 * session
            name = record.trial.name.rpartition("-r")[0] + (f"-s{session + 1}" if session else "")
            update = {"session": session, "repetition": number, "name": f"{name}-r{number + 1}"}
            topology = [
                rank.model_copy(update={"host": host, "node": None, "device": f"{used}-{rank.rank}"})
                for rank in record.topology
            ]
            later = session * 10**15
            windows = [w.model_copy(update={"start_ns": w.start_ns + later}) for w in record.windows]
            timeline = [entry.model_copy(update={"at_ns": entry.at_ns + later}) for entry in record.timeline]
            rest = {"windows": windows, "timeline": timeline, "backend": "nccl"}
            return record.model_copy(
                update={"trial": record.trial.model_copy(update=update), "topology": topology, **rest}
            )

        return change

    of = experiment(modes=["strong"], windows=3, steps_per_window=10)
    truth = Truth(step_s=bent, step_cv=0.001, repetition_cv=0.0005)
    for session in range(count):
        part = write_bundle(folder / str(session), of, truth, seed=session, tables=False, change=of_session(session))
        for trial in (part / "trials").iterdir():
            record = TrialRecord.model_validate_json((trial / "trial.json").read_bytes())
            shutil.copytree(trial, folder / "all" / "trials" / record.trial.name)
    shutil.copy(part / "experiment.yaml", folder / "all")
    (series,) = scaling([open_bundle(folder / "all")]).series
    return series


def test_the_headline_says_what_the_interval_holds_for(tmp_path: Path):
    assert ", within one session on one machine), efficiency" in in_sessions(tmp_path / "1", 1).headline
    several = in_sessions(tmp_path / "3", 3)
    assert ", over 3 sessions on 3 machines), efficiency" in several.headline
    assert several.points[-1].speedup.sessions == 3
    assert several.points[-1].throughput.method is Method.SESSIONS
    again = in_sessions(tmp_path / "again", 2, device="GPU-0")
    assert ", over 2 sessions on one machine), efficiency" in again.headline


def test_a_slow_repetition_is_named(tmp_path: Path):
    def slow(trial: TrialSpec, steps: np.ndarray) -> np.ndarray:
        return np.full(len(steps), 1.1 if (trial.point.workers, trial.repetition) == (4, 1) else 1.0)

    of = experiment(modes=["strong"], windows=3, steps_per_window=10)
    truth = Truth(step_s=bent, step_cv=0.001, repetition_cv=0.001, shape=slow)
    result = scaling([open_bundle(write_bundle(tmp_path, of, truth, tables=False))])
    (note,) = [note for note in result.series[0].notes if "slower than the others" in note]
    assert re.match(r"strong: 1 of 3 repetitions at 4 workers is (9.9|10.0|10.1) % slower", note)
    told = (
        "3 repetitions of a point can miss a kind of run that is up to 63 % of all, and all 9 trials together one of up"
    )
    assert any(told in note for note in scaling_table(result).notes)


def test_one_repetition_is_named_in_the_headline(tmp_path: Path):
    series = strong(tmp_path, Truth(), repetitions=1)
    assert "95 % interval" not in series.headline
    assert "(within the run only " in series.headline
    assert " (single repetition: run-to-run variation unknown)" in series.headline
    alone = strong(tmp_path / "alone", Truth(), repetitions=1, workers=[2])
    assert alone.headline.endswith(
        " on 2 workers, within one session on one machine (single repetition: run-to-run variation unknown)"
    )


def test_larger_counts_without_a_good_trial_are_named(tmp_path: Path):
    of = experiment(modes=["strong"], windows=3, steps_per_window=10)
    endings = {
        trial.name: (TrialPhase.invalid, "NoisyNeighbor", "")
        for trial in make_plan(of).trials
        if trial.point.workers > 1
    }
    (series,) = scaling([open_bundle(write_bundle(tmp_path, of, Truth(), tables=False, endings=endings))]).series
    scope = "within one session on one machine"
    assert series.headline.endswith(f" on 1 worker, {scope}; no valid trials at 2, 4 workers")


@pytest.mark.parametrize(
    ("value", "low", "high", "text", "share"),
    [
        (0.4513, 0.00005413, 3693.29, "0.45 (0.000054–3,693)", "45 % (0.0054–369,329)"),
        (27.12, 2.21, 338.2, "27 (2.2–338)", "2,712 % (221–33,820)"),
        (0.11, 0.009, 0.21, "0.110 (0.009–0.210)", "11.0 % (0.9–21.0)"),
    ],
)
def test_each_end_of_a_very_wide_interval_has_digits_of_its_own(
    value: float, low: float, high: float, text: str, share: str
):
    wide = Estimate(value, low, high, 0.95, Method.WELCH, 3)
    assert spelling.interval(wide) == text
    assert spelling.interval(wide, as_percent=True) == share


def test_a_share_is_never_minus_zero():
    assert spelling.percent(-0.0001) == "0.0 %"
    assert spelling.percent(11.09) == "1,109.0 %"


def test_one_worker_is_no_workers(tmp_path: Path) -> None:
    of = experiment(modes=["weak"], workers=[1], repetitions=1, windows=2, steps_per_window=5)
    alone = scaling([open_bundle(write_bundle(tmp_path / "one", of, Truth(), tables=False))])
    assert "weak: single repetition at 1 worker: its interval" in " ".join(scaling_table(alone).notes)
    both = experiment(
        modes=["weak"],
        workers=[1, 2],
        windows=2,
        steps_per_window=5,
        matrix={"precision": ["fp32", "bf16"]},
        exclude=[{"workers": 1, "precision": "bf16"}],
    )
    notes = scaling_table(scaling([open_bundle(write_bundle(tmp_path / "both", both, Truth(), tables=False))])).notes
    assert "The baseline of weak precision=fp32 is 1 worker." in notes
    assert "The baseline of weak precision=bf16 is 2 workers." in notes
