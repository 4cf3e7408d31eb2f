"""What being measured costs: a known cost is found, also while steps get slower, and little is not made much of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import open_bundle
from scalecurve.checks.diagnose import diagnose
from scalecurve.checks.overhead import largest_in_words, mean_of, overhead_of, overhead_table, overheads
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from tests.analysis.synthetic import experiment, write_bundle

FORM = experiment("mine", modes=["weak"], workers=[1, 2], repetitions=3)
STEP_NS, STEPS = 10_000_000, 10


def turning(record: TrialRecord, cost: float, drift: float = 0.0, order: str = "biib") -> TrialRecord:
    """With four turns: instrumented steps take ``cost`` longer, and each turn's ``drift`` longer than the last's."""
    last = record.windows[-1]
    windows, start = [], last.start_ns + last.wall_ns
    for place, letter in enumerate(order):
        step = STEP_NS * (1 + drift * place) * (1 + cost * (letter == "i"))
        windows.append(
            TrialWindow(
                index=last.index + 1 + place,
                kind=WindowKind.instrumented if letter == "i" else WindowKind.bare,
                start_ns=start,
                wall_ns=round(step * STEPS),
                fastest_ns=round(step * STEPS),
                slowest_rank=0,
                first_step=last.first_step + last.steps + place * STEPS,
                steps=STEPS,
                samples=STEPS * last.samples // last.steps,
            )
        )
        start += windows[-1].wall_ns
    return record.model_copy(update={"windows": [*record.windows, *windows]})


def bundle(folder: Path, cost: float, spread: float = 0.0) -> Path:
    def turned(record: TrialRecord) -> TrialRecord:
        repetition = int(record.trial.name.rpartition("-r")[2])
        return turning(record, (cost if record.trial.point.workers == 2 else 0.0) + spread * (repetition - 2))

    return write_bundle(folder, FORM, tables=False, change=turned)


@pytest.mark.parametrize("order", ["biib", "ibbi"])
def test_a_steady_drift_is_no_overhead(tmp_path: Path, order: str) -> None:
    record = open_bundle(bundle(tmp_path / "a", 0.0)).trials[0].record
    assert record is not None
    plain = record.model_copy(update={"windows": record.windows[:-4]})
    assert overhead_of(plain) is None
    assert overhead_of(turning(plain, 0.0, drift=0.1, order=order)) == pytest.approx(0, abs=1e-6)
    assert overhead_of(turning(plain, 0.02, drift=0.001, order=order)) == pytest.approx(0.02, abs=1e-4)


def test_overhead_stands_in_a_table_and_a_sentence(tmp_path: Path) -> None:
    found = overheads(measure(open_bundle(bundle(tmp_path / "a", 0.002, spread=0.001))))
    assert [(each.point.workers, len(each.shares)) for each in found] == [(1, 3), (2, 3)]
    assert largest_in_words(found) == "overhead 0.20 % (-0.05 to 0.45)"
    assert [row[-1] for row in overhead_table(found).rows] == [each.mean for each in found]
    assert [each.mean.value for each in found] == pytest.approx([0, 0.002], abs=1e-6)
    assert largest_in_words(()) == ""
    noisy = overheads(measure(open_bundle(bundle(tmp_path / "noisy", 0.002, spread=0.2))))
    assert largest_in_words(noisy) == "overhead not known: 3 trials differ too much"
    assert not overhead_table(()).rows


@pytest.mark.parametrize(("cost", "spread", "noticed"), [(0.03, 0.002, True), (0.03, 0.05, False), (0.008, 0.0, False)])
def test_a_cost_is_noticed_where_trials_agree_on_it(tmp_path: Path, cost: float, spread: float, noticed: bool) -> None:
    findings = [
        f for f in diagnose([open_bundle(bundle(tmp_path / "a", cost, spread))]).findings if f.kind == "overhead"
    ]
    assert [f.workers for f in findings] == ([2] if noticed else [])
    for finding in findings:
        assert "instrumented steps take 3.00 % (2.50–3.50) longer than bare ones" in finding.evidence


@given(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=8))
def test_no_wide_interval_is_printed(shares: list[float]) -> None:
    found = mean_of(shares)
    assert found.half_width is None or found.half_width <= 0.05
