"""The largest batch that fit, as a table and in words."""

from pathlib import Path

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.cost import cost
from scalecurve.curves.tables import scaling_table
from scalecurve.reporting.sections import largest_batch_table, largest_in_words
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.trial import TrialPhase
from tests.analysis.synthetic import Truth, amdahl, experiment, write_bundle

LADDER_OF_TOKENS = Path(__file__).parents[3] / "docs" / "evidence" / "gpu" / "llm-gpt2-small.zip"
EXACT = Truth(step_s=amdahl(0.1, 0.1), repetition_cv=0.0, step_cv=0.0)


def ladder(folder: Path) -> Bundle:
    """Batches of which 512 a worker fit on one worker, and 128 on two."""
    batch = {"ladder": {"from": 32, "factor": 4, "maxBatches": 4}}
    weak = {"modes": ["weak"], "workers": [1, 2], "batch": batch}
    of = experiment("e", repetitions=1, windows=2, steps_per_window=5, scaling=weak)
    plan = make_plan(of)
    memory, full, absent = {1: 1000, 2: 200}, {}, []
    for trial in plan.trials:
        if (trial.point.batch_per_worker or 0) > 4 * memory[trial.point.workers]:
            absent.append(trial.name)
        elif (trial.point.batch_per_worker or 0) > memory[trial.point.workers]:
            full[trial.name] = (TrialPhase.full, "OutOfMemory", "rank 0: out of memory")
    return open_bundle(write_bundle(folder / "b", of, EXACT, tables=False, endings=full, absent=absent))


def test_it_is_known_for_every_worker_count(tmp_path: Path):
    bundle = ladder(tmp_path)
    rows = largest_batch_table([bundle]).plain()["rows"]
    assert [(row["workers"], row["fits"], row["full"]) for row in rows] == [(1, 512, 2048), (2, 128, 512)]
    assert largest_in_words([bundle]) == [
        "weak, 1 worker: largest batch that fit: 512 per worker; 2048 ran out of memory.",
        "weak, 2 workers: largest batch that fit: 128 per worker; 512 ran out of memory.",
    ]
    result = scaling([bundle])
    assert result.exclusions == "2 trials excluded: 2 Full (OutOfMemory)"
    assert result.lost == 0, "a ladder ends so: no reason for doubt"
    assert result.unfinished() == 0, "what lies beyond is not waited for"
    headlines = {series.name: series.headline for series in result.series}
    assert "; out of memory at 2 workers" in headlines["weak batch.perWorker=512"]
    assert "no valid trials" not in " ".join(headlines.values())


def test_without_a_ladder_there_is_none(tmp_path: Path):
    of = experiment("e", workers=[1, 2], repetitions=1, windows=2, steps_per_window=5)
    bundle = open_bundle(write_bundle(tmp_path / "b", of, EXACT, tables=False))
    assert largest_batch_table([bundle]).rows == ()
    assert largest_in_words([bundle]) == []


def test_a_batch_that_did_not_fit_does_not_change_the_unit() -> None:
    bundle = open_bundle(LADDER_OF_TOKENS)
    columns = (*scaling_table(scaling([bundle])).columns, *cost([bundle]).table().columns)
    assert {"Throughput (tokens/s)", "Million tokens"} <= {column.heading for column in columns}
