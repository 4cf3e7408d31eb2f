"""An epoch as tables: batch by workers, and where its time goes."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.cost import cost
from scalecurve.curves.per_epoch import MEASURED, SUBTRACTED, batch_table, epoch_split_table
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, amdahl, experiment, write_bundle

SAMPLES = 6400
PRICE = {"perWorkerHour": 1.0, "datasetSamples": SAMPLES}
EXACT = Truth(step_s=amdahl(0.1, 0.1), repetition_cv=0.0, step_cv=0.0)


def rows(path: Path, table_of, change=None, **spec):
    of = experiment("e", modes=["weak"], workers=[1, 2, 4], repetitions=2, windows=2, steps_per_window=5, **spec)
    bundle = open_bundle(write_bundle(path, of, EXACT, tables=False, change=change))
    return table_of(cost([bundle])).plain()["rows"]


def test_communication_is_what_was_measured(tmp_path: Path):
    one, *several = rows(tmp_path / "m", epoch_split_table, cost=PRICE)
    assert one["communication_s"] == 0
    assert one["compute_s"] == pytest.approx(one["epoch_s"])
    for row in several:
        assert row["method"] == MEASURED
        assert row["share"] == pytest.approx(0.1, rel=0.05)
        assert row["compute_s"] + row["communication_s"] == pytest.approx(row["epoch_s"])


def test_or_else_the_step_of_one_worker_is_subtracted(tmp_path: Path):
    def without(record: TrialRecord) -> TrialRecord:
        timed = [w for w in record.windows if w.kind is not WindowKind.no_communication]
        assert record.summary is not None
        summary = record.summary.model_copy(update={"exposed": None})
        return record.model_copy(update={"windows": timed, "summary": summary})

    one, _, four = rows(tmp_path / "s", epoch_split_table, without, cost=PRICE)
    assert four["method"] == SUBTRACTED
    step = four["epoch_s"] / four["steps"]
    assert four["communication_s"] == pytest.approx(four["steps"] * (step - one["epoch_s"] / one["steps"]))
    assert four["share"] == pytest.approx(0.2 / 1.2, rel=0.01)


def test_batches_stand_by_workers(tmp_path: Path):
    table = rows(tmp_path / "b", batch_table, cost=PRICE, matrix={"batch.perWorker": [32, 64]})
    assert [row["batch"] for row in table] == [32, 64]
    for row in table:
        assert row["speedup_4"] == pytest.approx(row["time_1"] / row["time_4"])
    assert rows(tmp_path / "one", batch_table, cost=PRICE) == []
