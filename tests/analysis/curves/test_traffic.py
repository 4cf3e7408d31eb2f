"""Bytes of a step over its time, beside the all-reduce alone."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.traffic import wire_table
from scalecurve.features.collectives.allreduce import AllReduceReport, PointBandwidth, RepetitionRange, SizeResult
from scalecurve_api.record.rank import Traffic
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import Point
from tests.analysis.synthetic import Truth, experiment, write_bundle

EXACT = Truth(step_s=lambda point: 0.1, exposed_share=lambda point: 0.25, step_cv=0.0, repetition_cv=0.0)


def sending(record: TrialRecord) -> TrialRecord:
    workers = record.trial.point.workers
    traffic = Traffic(payload_bytes=1e8, wire_bytes=2e8 * (workers - 1) / workers, plain_payload_bytes=1e8, how="test")
    return record.model_copy(update={"traffic": traffic})


def alone(point: Point, busbw: float) -> AllReduceReport:
    spread = RepetitionRange(busbw, busbw, busbw)
    size = SizeResult(1 << 20, True, 1, RepetitionRange(1, 1, 1), 1, spread, spread, 0)
    return AllReduceReport((PointBandwidth("other", point, (size,)),))


FORM = experiment(modes=["weak"], workers=[1, 2, 4], windows=2, steps_per_window=5)


def test_bandwidth_is_bytes_over_time(tmp_path: Path):
    bundle = open_bundle(write_bundle(tmp_path, FORM, EXACT, tables=False, change=sending))
    point = next(trial.spec.point for trial in bundle.trials if trial.spec.point.workers == 4)
    table = wire_table(scaling([bundle]).curves(), [bundle], alone(point, 6.0).highest())
    frame = table.frame().set_index("workers")
    assert frame.index.tolist() == [2, 4]
    assert frame["over_step"].tolist() == pytest.approx([1.0, 1.5])
    assert frame["over_exposed"].tolist() == pytest.approx([4.0, 6.0])
    assert frame["used"].tolist()[1] == pytest.approx(0.25)
    assert table.rows[0][-1] is None


def test_without_records_of_bytes_there_is_no_row(tmp_path: Path):
    bundle = open_bundle(write_bundle(tmp_path, FORM, EXACT, tables=False))
    assert wire_table(scaling([bundle]).curves(), [bundle], {}).rows == ()


def test_hidden_communication_is_not_divided_by(tmp_path: Path):
    hidden = Truth(step_s=lambda point: 0.1, exposed_share=lambda point: 0.001, step_cv=0.0, repetition_cv=0.0)
    bundle = open_bundle(write_bundle(tmp_path, FORM, hidden, tables=False, change=sending))
    frame = wire_table(scaling([bundle]).curves(), [bundle], {}).frame()
    assert frame["over_exposed"].isna().all()
