"""Optimus' speed over workers and servers from measured parameter servers, and the time to a target."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.torch_options import Updates
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point
from scalecurve_models.fit.fit_bundle import fit
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries, Repetition
from scalecurve_models.learning_curves.fit import LearningFit
from scalecurve_models.learning_curves.servers import program_of, served_tables
from tests.analysis.synthetic import Truth, experiment, write_bundle

THETA = (1.02, 2.78, 4.92, 0.0, 0.02)
BATCH = 40
NOTHING_LEARNED = LearningFit((), None, (), None, (), ())


def step_s(workers: int, servers: int) -> float:
    w, p = workers, servers
    return THETA[0] * BATCH / w + THETA[1] + THETA[2] * w / p + THETA[3] * w + THETA[4] * p


def curve(servers: int, workers: list[int]) -> tuple[ObservedSeries, int]:
    of = experiment("s", modes=["strong"], workers=workers, repetitions=1)
    points = [observed(trial.point, step_s(trial.point.workers, servers)) for trial in make_plan(of).trials]
    ordered = tuple(sorted(points, key=lambda point: point.workers))
    return ObservedSeries("b", f"servers={servers}", Mode.strong, 1, "samples", ordered), servers


def observed(point: Point, seconds: float) -> ObservedPoint:
    rate = BATCH / seconds
    return ObservedPoint(point, (Repetition(rate, seconds, None),), rate, BATCH, None, None, None)


def test_the_equation_is_recovered_from_measured_servers():
    curves = [curve(servers, [1, 2, 4, 8]) for servers in (1, 2, 4)]
    program = program_of((Mode.strong, Updates.synchronous), curves, NOTHING_LEARNED)
    assert (program.kind, program.servers) == ("sync", [1, 2, 4])
    assert program.fit is not None
    assert program.fit.values == pytest.approx(THETA, abs=5e-3)
    speeds, coefficients = (table.plain()["rows"] for table in served_tables([program]))
    assert {(row["servers"], row["workers"]) for row in speeds} == {(p, w) for p in (1, 2, 4) for w in (1, 2, 4, 8)}
    assert all(abs(row["error"]) < 1e-3 for row in speeds)
    assert len(coefficients) == len(THETA)
    assert program.seconds(8, 2) is None  # nobody says how many steps a target takes


def test_too_few_points_have_no_coefficients_but_stand_in_the_table():
    program = program_of((Mode.strong, Updates.asynchronous), [curve(2, [1, 2])], NOTHING_LEARNED)
    assert program.fit is None
    (speeds,) = served_tables([program])
    assert program.failure in " ".join(speeds.notes)
    assert [row["predicted"] for row in speeds.plain()["rows"]] == [None, None]


def test_other_strategies_have_no_servers(tmp_path: Path):
    folder = write_bundle(tmp_path / "d", experiment("d", repetitions=1), Truth(), tables=False)
    assert fit(open_bundle(folder)).served == ()
