"""MFU is a share of a named peak, and not shown above 100 %, of runs and of imports."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.tables import split_table
from scalecurve.reporting.belief import NO, belief
from scalecurve.reporting.findings import analyze
from scalecurve.statistics.estimate import RefusedNumber
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, experiment, write_bundle

OF = experiment("peak", modes=["weak"], workers=[1, 2], windows=2, steps_per_window=3)


@pytest.mark.parametrize("engine", ["local", "import"])
@pytest.mark.parametrize("flops", ["flops_per_sample", "hardware_flops_per_sample"])
def test_a_share_above_the_peak_is_refused_and_named(tmp_path: Path, engine: str, flops: str) -> None:
    def change(record: TrialRecord) -> TrialRecord:
        return record.model_copy(update={"engine": engine, flops: 5e10})

    analysis = analyze([open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False, change=change))])
    table = split_table(analysis.scaling)
    names = [column.name for column in table.columns]
    for row in table.rows:
        assert all(isinstance(row[names.index(name)], RefusedNumber) for name in ("mfu", "hfu"))
    assert not any("MFU and HFU are shares" in note for note in table.notes)
    result = belief(analysis)
    assert result.word == NO
    assert any("MFU is not shown" in each and "10 TFLOP/s (fp32, dense, synthetic)" in each for each in result.cautions)


def test_the_convention_of_the_peak_stands_beside_it(tmp_path: Path) -> None:
    table = split_table(scaling([open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False))]))
    note = "MFU and HFU are shares of the vendor's peak without sparsity: 10 TFLOP/s (fp32, dense, synthetic)."
    assert note in table.notes
