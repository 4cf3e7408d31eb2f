"""cost, allreduce, compare, diagnose, status and comparability on bundles of known truth."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.checks.comparability import differences, differences_between
from scalecurve.checks.compare import compare
from scalecurve.checks.diagnose import Diagnosis, diagnose
from scalecurve.cli import cli
from scalecurve.curves.cost import cost
from scalecurve.curves.progress import status
from scalecurve.features.collectives.allreduce import allreduce
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.rank import DeviceSamples
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.experiment import Cost
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.analysis.synthetic import Truth, experiment, write_bundle

ALLREDUCE = Path(__file__).parents[1] / "fixtures" / "allreduce-h200.zip"
PRICE = {"perWorkerHour": 3.6, "datasetSamples": 64_000, "epochs": 10}
LOSS = {1: 1.0, 2: 1.25, 4: 2.0}
EXACT = Truth(step_s=lambda p: 0.1 * LOSS.get(p.workers, 4.0), step_cv=0, repetition_cv=0)


def weak(**spec: object):
    return experiment(modes=["weak"], **{"windows": 3, "steps_per_window": 10, **spec})


def bundle(folder: Path, of=None, truth: Truth = EXACT, **more: object) -> Bundle:
    return open_bundle(write_bundle(folder, of or weak(), truth, **{"tables": False, **more}))


class TestCost:
    def test_time_and_cost_of_an_epoch(self, tmp_path: Path):
        (series,) = cost([bundle(tmp_path, weak(cost=PRICE))]).series
        assert [p.epoch_s.value for p in series.points] == pytest.approx([100, 62.5, 50])
        assert [p.epoch_cost.value for p in series.points] == pytest.approx([0.1, 0.125, 0.2])
        assert [p.total_s.value for p in series.points] == pytest.approx([1000, 625, 500])
        assert [p.total_cost.value for p in series.points] == pytest.approx([1, 1.25, 2])
        assert (series.cheapest, series.fastest) == (1, 4)

    def test_an_interval_that_reaches_the_best_is_as_cheap(self, tmp_path: Path):
        noisy = Truth(step_s=lambda p: 0.1, repetition_cv=0.02)
        (series,) = cost([bundle(tmp_path, weak(cost=PRICE, repetitions=3), noisy)]).series
        assert len(series.as_cheap) == 2

    def test_another_price_can_be_asked_for(self, tmp_path: Path):
        report = cost([bundle(tmp_path)], Cost(per_worker_hour=1.0, currency="EUR"))
        assert report.series[0].currency == "EUR"
        assert report.series[0].points[0].epoch_s is None
        assert report.series[0].points[0].per_million.value == pytest.approx(1e6 / 640 / 3600)
        assert "EUR" in report.table().text()

    def test_nothing_known_is_said(self, tmp_path: Path):
        report = cost([bundle(tmp_path)])
        assert not report.known
        assert len(report.table().notes) == 2

    def test_a_price_of_nothing_is_no_division(self, tmp_path: Path):
        report = cost([bundle(tmp_path, weak(cost={**PRICE, "perWorkerHour": 0}))])
        assert report.series[0].points[0].epoch_cost is None
        assert report.series[0].points[0].epoch_s is not None

    def test_the_programs_own_data_set_counts(self, tmp_path: Path):
        def sized(record: TrialRecord) -> TrialRecord:
            return record.model_copy(update={"options": {"datasetSamples": 6400}})

        report = cost([bundle(tmp_path, change=sized)])
        assert report.series[0].points[0].epoch_s.value == pytest.approx(10)

    def test_runs_that_train_nothing_end_with_the_reason(self):
        ended = CliRunner().invoke(cli, ["cost", str(ALLREDUCE)])
        assert ended.exit_code == 2
        assert "these runs train nothing" in ended.output
        assert "strong" not in ended.output

    def test_no_valid_trial_ends_with_the_reason(self, tmp_path: Path):
        of = weak(cost=PRICE)
        endings = {t.name: (TrialPhase.failed, "ProcessFailed", "killed") for t in make_plan(of).trials}
        table = cost([bundle(tmp_path, of, endings=endings)]).table()
        assert table.rows == ()
        assert table.notes == ("No time or cost of training: no trial is valid.",)

    def test_unfinished_points_show_a_question_mark(self, tmp_path: Path):
        of = weak(cost=PRICE)
        absent = [t.name for t in make_plan(of).trials if t.point.workers == 4]
        assert cost([bundle(tmp_path, of, absent=absent)]).table().spelled()[2][4:9] == ["?"] * 5


class TestAllReduce:
    @staticmethod
    def rows(trial: TrialSpec) -> list[AllReduceRow]:
        n = trial.point.workers
        times = [(size, 10 + size / 1e3 + trial.repetition) for size in (1024, 8, 1 << 30)]
        return [
            AllReduceRow(
                bytes=size,
                in_place=False,
                iterations=20,
                time_us_median=us,
                time_us_min=us,
                time_us_p95=us,
                algbw=size / us / 1e3,
                busbw=size / us / 1e3 * 2 * (n - 1) / n,
                errors=0,
            )
            for size, us in times
        ]

    def test_sizes_ascend_and_spread_over_repetitions(self, tmp_path: Path):
        of = weak(workers=[2, 16, 4], workload={"program": "allreduce"})
        report = allreduce([bundle(tmp_path, of, allreduce=self.rows)])
        assert [p.point.workers for p in report.points] == [2, 4, 16]
        sizes = report.points[0].sizes
        assert [s.bytes for s in sizes] == [8, 1024, 1 << 30]
        assert (sizes[0].time_us.least, sizes[0].time_us.median, sizes[0].time_us.most) == pytest.approx(
            (10.008, 11.008, 12.008)
        )
        assert sizes[0].repetitions == 3
        assert report.table().spelled()[2][4] == "1 GiB"

    def test_wrong_sums_are_said(self, tmp_path: Path):
        def wrong(trial: TrialSpec) -> list[AllReduceRow]:
            return [row.model_copy(update={"errors": 1}) for row in self.rows(trial)]

        of = weak(workers=[2, 4], workload={"program": "allreduce"})
        table = allreduce([bundle(tmp_path, of, allreduce=wrong)]).table()
        assert "differ from the expected sum" in table.notes[1]

    def test_other_programs_have_none(self, tmp_path: Path):
        assert allreduce([bundle(tmp_path)]).points == ()


class TestCompare:
    def test_a_slower_point_is_found(self, tmp_path: Path):
        before = Truth(step_s=lambda p: 0.1, repetition_cv=0.002, step_cv=0.01)
        after = Truth(step_s=lambda p: 0.1 * (1.2 if p.workers == 4 else 1), repetition_cv=0.002, step_cv=0.01)
        first = bundle(tmp_path / "a", truth=before)
        second = bundle(tmp_path / "b", truth=after, seed=7)
        found = compare(first, second, threshold=0.05)
        assert [p.verdict for p in found.points] == ["unchanged within noise", "unchanged within noise", "slower"]
        assert found.past_threshold
        assert [p.point.workers for p in found.points if p.change.past_threshold and p.change.slower] == [4]
        assert compare(first, second, threshold=0.5).past_threshold is False
        assert compare(first, first).past_threshold is False

    def test_one_repetition_is_undecided(self, tmp_path: Path):
        one = bundle(tmp_path, weak(repetitions=1), Truth())
        assert {p.verdict for p in compare(one, one).points} == {"undecided: only one repetition on one side"}

    def test_repetitions_too_scattered_to_show_anything_are_said(self, tmp_path: Path):
        """On a busy machine two repetitions differ so much that the note of what decides was left out."""
        one = bundle(tmp_path, weak(repetitions=2), Truth(repetition_cv=0.5))
        found = compare(one, one)
        assert {p.verdict for p in found.points} == {"unchanged within noise"}
        assert None in {p.change.detectable for p in found.points}
        (note,) = (note for note in found.table().notes if note.startswith("Decided by: runs by turns in one session."))
        assert "o change below a factor of 2 is detectable: the repetitions differ too much." in note

    def test_one_session_each_is_decided_by_the_spread_that_is_known(self, tmp_path: Path):
        def later(record: TrialRecord) -> TrialRecord:
            timeline = [entry.model_copy(update={"at_ns": entry.at_ns + 10**15}) for entry in record.timeline]
            return record.model_copy(update={"timeline": timeline})

        first = bundle(tmp_path / "a", truth=STEADY)
        second = bundle(tmp_path / "b", truth=Truth(**{**STEADY.__dict__, "step_s": lambda p: 0.11}), change=later)
        by_prior = compare(first, second)
        assert {p.verdict for p in by_prior.points} == {"slower"}
        assert by_prior.decided_by == ("prior for sessions of one machine: 0.9 %, 4 degrees of freedom",)
        notes = " ".join(by_prior.table().notes)
        assert all(
            part in notes for part in (*by_prior.decided_by, "5 % at most call any point changed", "--session-sd")
        )
        assert {p.verdict for p in compare(first, second, session_sd=0.005).points} == {"slower"}
        assert {p.verdict for p in compare(first, second, session_sd=0.05).points} == {"unchanged within noise"}
        history = [bundle(tmp_path / str(seed), truth=STEADY, seed=seed) for seed in range(2, 6)]
        found = compare(first, second, history=history)
        assert {p.verdict for p in found.points} == {"slower"}
        assert any("Smallest detectable change" in note for note in found.table().notes)
        with pytest.raises(ValueError, match="session_sd"):
            compare(first, second, session_sd=0.0)

    def test_a_copy_is_no_further_session(self, tmp_path: Path):
        """Equal sessions had no spread, so that any change was beyond it."""
        first, second = (bundle(tmp_path / name, truth=STEADY, seed=seed) for name, seed in (("a", 1), ("b", 2)))
        shutil.copytree(first.path, tmp_path / "copy")
        for copies in ([first, first], [first, second, open_bundle(tmp_path / "copy")]):
            with pytest.raises(ValueError, match=r"holds a trial of .*: a copy is no further session"):
                compare(first, second, history=copies)
        words = ["compare", str(first.path), str(second.path), "--history", str(first.path)]
        ran = CliRunner().invoke(cli, [*words, "--history", str(tmp_path / "copy")])
        assert ran.exit_code == 2
        assert "copy: holds a trial of" in ran.stderr

    def test_points_of_one_side_only_are_named(self, tmp_path: Path):
        first = bundle(tmp_path / "a", weak(workers=[1, 2]))
        second = bundle(tmp_path / "b", weak(workers=[2, 4]))
        found = compare(first, second)
        assert (found.only_before, found.only_after) == (("weak, 1 worker (1x1)",), ("weak, 4 workers (1x4)",))

    @pytest.mark.parametrize("threshold", [-0.1, float("nan"), float("inf")])
    def test_thresholds_are_checked(self, tmp_path: Path, threshold: float):
        one = bundle(tmp_path)
        with pytest.raises(ValueError, match="threshold"):
            compare(one, one, threshold)

    def test_differing_software_is_said(self, tmp_path: Path):
        def newer(record: TrialRecord) -> TrialRecord:
            return record.model_copy(update={"versions": {**record.versions, "torch": "3.0"}})

        found = differences_between(bundle(tmp_path / "a"), bundle(tmp_path / "b", change=newer))
        assert [(d.what, d.spelled()) for d in found] == [
            ("version of torch", "synthetic: 2.14.1; synthetic: 3.0"),
        ]


STEADY = Truth(step_s=lambda p: 0.1, step_cv=0.02, repetition_cv=0.002)


def planted(folder: Path, **truth: object) -> Diagnosis:
    of = weak(workers=[1, 4], repetitions=2, windows=5, steps_per_window=60)
    return diagnose([bundle(folder, of, Truth(**{**STEADY.__dict__, **truth}), tables=True)])


class TestDiagnose:
    def test_steady_trials_give_no_finding(self, tmp_path: Path):
        found = planted(tmp_path)
        assert found.findings == ()
        assert found.rows == (20 + 600) * 5 * 2

    @pytest.mark.parametrize(
        ("kind", "shape"),
        [
            ("drift", lambda trial, step: 1 + 0.2 * step / len(step)),
            ("warm-up too short", lambda trial, step: 1 + 0.5 * np.exp(-step / 40)),
            ("bimodal steps", lambda trial, step: np.where(step % 3 == 0, 1.4, 1.0)),
            ("repetitions disagree", lambda trial, step: 1 + 0.3 * trial.repetition + 0 * step),
        ],
    )
    def test_planted_defects_are_found(self, tmp_path: Path, kind: str, shape: Callable):
        found = [finding for finding in planted(tmp_path, shape=shape).findings if finding.kind == kind]
        assert {finding.workers for finding in found} == {1, 4}
        assert all(finding.severity > 0.01 and finding.evidence and finding.advice for finding in found)
        assert all(len(finding.trials) == 2 for finding in found)

    def test_what_records_say_is_noticed_without_tables(self, tmp_path: Path):
        def unsteady(record: TrialRecord) -> TrialRecord:
            warmup = record.warmup.model_copy(update={"stable": False})
            measure = record.trial.measure.model_copy(update={"max_foreign_load": 0.5})
            trial = record.trial.model_copy(update={"measure": measure})
            load = [0.3] * trial.point.workers
            return record.model_copy(update={"warmup": warmup, "foreign_load": load, "trial": trial})

        found = diagnose([bundle(tmp_path, change=unsteady)])
        assert {(f.kind, f.workers) for f in found.findings} == {
            (kind, workers) for kind in ("never stable", "shared cores") for workers in (1, 2, 4)
        }
        assert all(len(f.trials) == f.of == 3 and f.severity is None for f in found.findings)

    def test_a_slow_rank_is_named(self, tmp_path: Path):
        (finding,) = planted(tmp_path, slow_rank=2, behind=0.2).findings
        assert (finding.kind, finding.workers) == ("slow rank", 4)
        assert finding.evidence.startswith("rank 2 (synthetic, cpu:2, on node-0)")

    def test_waiting_for_ever_another_rank_is_found(self, tmp_path: Path):
        (finding,) = planted(tmp_path, behind=0.2).findings
        assert (finding.kind, finding.workers) == ("stragglers", 4)

    def test_a_table_that_cannot_be_read_is_said(self, tmp_path: Path):
        one = bundle(tmp_path, tables=True)
        (one.trials[0].folder / "steps.parquet").write_bytes(b"PAR1")
        found = diagnose([one])
        assert len(found.problems) == 1
        assert "sha256" in found.table().notes[1]

    def test_short_trials_are_not_judged(self, tmp_path: Path):
        assert diagnose([bundle(tmp_path, weak(windows=1, steps_per_window=1), tables=True)]).findings == ()


class TestStatus:
    def test_an_unfinished_experiment(self, tmp_path: Path):
        of = weak()
        names = [t.name for t in make_plan(of).trials]
        absent = [name for name in names if name.startswith("weak-4")]
        bad = [name for name in names if name not in absent]
        endings = {bad[0]: (TrialPhase.failed, "RankKilled", ""), bad[1]: (TrialPhase.invalid, "Throttled", "")}
        state = status(bundle(tmp_path, of, endings=endings, absent=absent))
        assert state.headline == "synthetic: 6 of 9 trials done, 1 failed, 1 invalid"
        assert not state.finished
        assert "?" in state.table().text()

    def test_a_finished_one(self, tmp_path: Path):
        state = status(bundle(tmp_path))
        assert state.finished
        assert state.headline == "synthetic: 9 of 9 trials done"

    def test_nothing_but_a_plan(self, tmp_path: Path):
        of = weak()
        state = status(bundle(tmp_path, of, absent=[t.name for t in make_plan(of).trials]))
        assert [row[4] for row in state.table().spelled()] == ["0/3"] * 3


class TestComparability:
    @staticmethod
    def differing(folder: Path, change: Callable[[TrialRecord], dict[str, object]], **more: object) -> dict[str, str]:
        def at_four(record: TrialRecord) -> TrialRecord:
            return record.model_copy(update=change(record)) if record.trial.point.workers == 4 else record

        return {d.what: d.spelled() for d in differences([bundle(folder, change=at_four, **more)])}

    def test_equal_points_do_not_differ(self, tmp_path: Path):
        assert differences([bundle(tmp_path)]) == ()

    def test_versions(self, tmp_path: Path):
        found = self.differing(tmp_path, lambda r: {"versions": {**r.versions, "torch": "2.13.0"}})
        assert found == {"version of torch": "2.14.1 at 1, 2; 2.13.0 at 4"}

    def test_variables_also_when_unset(self, tmp_path: Path):
        found = self.differing(tmp_path, lambda r: {"environment": {**r.environment, "NCCL_ALGO": "Tree"}})
        assert found == {"variable NCCL_ALGO": "(unset) at 1, 2; Tree at 4"}

    def test_what_a_trial_writes_and_what_its_process_drives_is_its_own(self, tmp_path: Path):
        def each_its_own(record: TrialRecord) -> TrialRecord:
            workers = record.trial.point.workers
            own = {"trainedParameters": f"{workers}.pt", "replicasPerProcess": workers, "fusion": workers}
            own |= {"threads": 3 * workers}
            return record.model_copy(update={"options": {**record.options, **own}})

        found = differences([bundle(tmp_path, change=each_its_own)])
        assert [difference.what for difference in found] == ["setting fusion"]

    def test_threads_of_each_replica_are_compared(self, tmp_path: Path):
        def uneven(record: TrialRecord) -> TrialRecord:
            workers = record.trial.point.workers
            own = {"replicasPerProcess": workers, "threads": 4}
            return record.model_copy(update={"options": {**record.options, **own}})

        found = differences([bundle(tmp_path, change=uneven)])
        assert [d.spelled() for d in found] == ["4 at 1; 2 at 2; 1 at 4"]

    def test_what_differs_by_nature_is_left_out(self, tmp_path: Path):
        assert self.differing(tmp_path, lambda r: {"environment": {**r.environment, "WORLD_SIZE": "4"}}) == {}
        mpirun = {"OMPI_MCA_num_procs": "4", "OMPI_MCA_initial_wdir": "x"}
        assert self.differing(tmp_path / "mpirun", lambda r: {"environment": {**r.environment, **mpirun}}) == {}

    def test_devices(self, tmp_path: Path):
        found = self.differing(
            tmp_path, lambda r: {"topology": [t.model_copy(update={"device_name": "other"}) for t in r.topology]}
        )
        assert found == {"device": "synthetic at 1, 2; other at 4"}

    def test_clocks_beyond_two_percent(self, tmp_path: Path):
        def clocked(mhz: float):
            return lambda r: {"device_samples": [DeviceSamples(count=1, sm_mhz_mean=mhz)] * 4}

        hot = Truth(**{**EXACT.__dict__, "energy_w": 300.0})
        slow = self.differing(tmp_path / "a", clocked(1500), truth=hot)
        assert slow == {"device clock": "1900 MHz at 1; 1900 MHz at 2; 1500 MHz at 4"}
        assert self.differing(tmp_path / "b", clocked(1890), truth=hot) == {}

    def test_crossing_a_node(self, tmp_path: Path):
        found = differences([bundle(tmp_path, weak(placement={"workersPerNode": 2}))])
        assert {d.what: d.spelled() for d in found} == {"nodes": "1 at 1, 2; 2 at 4"}

    def test_other_machines(self, tmp_path: Path):
        found = self.differing(
            tmp_path, lambda r: {"topology": [t.model_copy(update={"host": "far"}) for t in r.topology]}
        )
        assert found == {"machines": "node-0 at 1, 2; far at 4"}

    def test_a_pods_name_is_no_machine(self, tmp_path: Path):
        found = self.differing(
            tmp_path,
            lambda r: {"topology": [t.model_copy(update={"host": "pod-7", "pod": "pod-7"}) for t in r.topology]},
        )
        assert found == {}


def test_diagnose_says_a_paragraph_a_finding() -> None:
    packed = Path(__file__).parents[2] / "docs" / "evidence" / "h200" / "sessions.zip"
    text = diagnose([open_bundle(packed)]).paragraphs(80)
    assert "strong at 2 workers: warm-up too short (2.7 % of a step, 1 of 9 trials)\n  the first 25 timed steps" in text
    assert "\n  → set measure.warmupSteps to 55 or more\n" in text
    assert max(map(len, text.splitlines())) <= 80
