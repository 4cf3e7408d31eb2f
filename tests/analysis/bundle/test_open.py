import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.bundle.problem import BundleError, FileError
from scalecurve.curves.compute import scaling
from scalecurve.curves.tables import excluded_table, problem_table, scaling_table
from scalecurve_api import GROUP
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.trial_record import stored_digest
from scalecurve_api.spec.trial import TrialPhase
from tests.analysis.synthetic import Truth, experiment, run, write_bundle

TINY = experiment(modes=["weak"], workers=[1, 2], repetitions=2, windows=2, steps_per_window=5)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("tiny"), TINY)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "own", TINY)


def test_trials_come_in_the_order_of_the_plan(tiny: Path):
    bundle = open_bundle(tiny)
    assert bundle.problems == ()
    assert [t.name for t in bundle.trials] == [t.name for t in make_plan(TINY).trials]
    assert all(t.good for t in bundle.trials)


def test_the_stored_digest_is_the_models(tiny: Path):
    for trial in open_bundle(tiny).trials:
        assert trial.record is not None
        tree = json.loads((trial.folder / "trial.json").read_text())
        assert stored_digest(tree) == trial.record.compute_digest() == trial.record.digest


def test_unfinished_trials_are_known_and_print_a_question_mark(tmp_path: Path):
    bundle = open_bundle(write_bundle(tmp_path, TINY, absent=["weak-2-1x2-r1", "weak-2-1x2-r2"], tables=False))
    result = scaling([bundle])
    row = scaling_table(result).spelled()[1]
    assert row[1:6] == ["weak", "2", "1x2", "0/2", "?"]
    assert result.unfinished() == 2


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_what_is_no_bundle_is_refused(tmp_path: Path, path: str):
    with pytest.raises(BundleError, match=r"no such folder|not a bundle"):
        open_bundle(tmp_path / path)


def test_two_bundles_of_one_name_are_told_apart(tiny: Path):
    assert [b.label for b in open_bundles([tiny, tiny])] == ["synthetic", "synthetic#2"]


def _spoil(home: Path, text: str | bytes) -> None:
    (home / "trial.json").write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (lambda text: text[: len(text) // 2], "truncated"),
        (lambda text: "", "empty"),
        (lambda text: "[1, 2]", "foreign"),
        (lambda text: '{"schema": "other/v1"}', "schema is 'other/v1'"),
        (lambda text: '{"schema": 1}', "schema is 1"),
        (lambda text: text.replace('"gloo"', '"nccl"'), "digest"),
        (lambda text: b"\xff\xfe" + text.encode(), "not JSON"),
        (lambda text: "[" * 200_000, "nested|not JSON|recursion"),
        (lambda text: text.replace('"attempt":1', '"attempt":NaN').replace('"attempt": 1', '"attempt": NaN'), "NaN"),
    ],
)
def test_a_bad_record_is_named_and_the_rest_loads(own: Path, spoilt, said: str):
    home = own / "trials" / "weak-2-1x2-r1"
    _spoil(home, spoilt((home / "trial.json").read_text()))
    bundle = open_bundle(own)
    (problem,) = bundle.problems
    assert problem.file == "trials/weak-2-1x2-r1/trial.json"
    assert re.search(said, problem.what)
    assert sum(t.good for t in bundle.trials) == 3
    assert problem_table(scaling([bundle])).rows


def test_records_are_read_by_version_whatever_the_api_group(own: Path):
    """A bundle outlives the name of the project that wrote it; its digests stay those of the bytes it has."""
    before = open_bundle(own)
    for path in (own / "experiment.yaml", *own.glob("trials/*/trial.json")):
        path.write_text(path.read_text().replace(GROUP, "older.example.com"))
    for path in own.glob("trials/*/trial.json"):
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({**tree, "digest": stored_digest(tree)}))
    after = open_bundle(own)
    assert (after.problems, after.experiment) == ((), before.experiment)
    assert [trial.good for trial in after.trials] == [True] * 4
    (own / "experiment.yaml").write_text((own / "experiment.yaml").read_text().replace("v1alpha1", "v9"))
    (problem,) = open_bundle(own).problems
    assert "apiVersion" in problem.what


def test_a_record_in_the_wrong_folder_is_foreign(own: Path):
    (own / "trials" / "weak-1-1x1-r1" / "trial.json").replace(own / "trials" / "weak-2-1x2-r1" / "trial.json")
    assert {p.what.split(":")[0] for p in open_bundle(own).problems} == {"foreign record", "missing"}


def test_a_record_of_another_experiment_is_foreign(own: Path, tmp_path: Path):
    other = write_bundle(tmp_path / "other", experiment("other", modes=["weak"], workers=[1, 2], repetitions=2))
    name = "trials/weak-2-1x2-r1/trial.json"
    (own / name).write_bytes((other / name).read_bytes())
    (problem,) = open_bundle(own).problems
    assert "experiment 'other'" in problem.what


def test_a_record_that_ran_otherwise_than_planned_is_foreign(own: Path):
    text = (own / "experiment.yaml").read_text()
    (own / "experiment.yaml").write_text(text.replace("model: resnet18", "model: resnet50"))
    problems = open_bundle(own).problems
    assert len(problems) == 4
    assert "workload differs" in problems[0].what


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod", "a: &a [1]\nb: *a", "\x00", "- 1"])
def test_without_an_experiment_the_records_still_load(own: Path, text: str):
    (own / "experiment.yaml").write_text(text)
    bundle = open_bundle(own)
    assert [p.file for p in bundle.problems] == ["experiment.yaml"]
    assert [(s.name, len(s.measured)) for s in scaling([bundle]).series] == [("weak", 2)]


def test_stray_files_are_named_and_hidden_ones_are_not(own: Path):
    (own / "trials" / "notes.txt").write_text("hello")
    (own / "trials" / ".weak-1.partial").mkdir()
    os.mkdir(os.fsencode(own / "trials") + b"/\xff")
    assert sorted(p.file for p in open_bundle(own).problems) == ["trials/\\udcff/trial.json", "trials/notes.txt"]


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("trials", "trials: cannot be listed: is a link, which scalecurve never makes here"),
        ("trials/weak-1-1x1-r1", "trials/weak-1-1x1-r1: not a trial folder: ignored"),
        ("trials/weak-1-1x1-r1/trial.json", "trials/weak-1-1x1-r1/trial.json: is a link, which"),
        ("experiment.yaml", "experiment.yaml: is a link, which scalecurve never makes here"),
    ],
)
def test_what_lies_behind_a_link_is_not_read(own: Path, tmp_path: Path, place: str, problem: str):
    (own / place).rename(tmp_path / "elsewhere")
    (own / place).symlink_to(tmp_path / "elsewhere")
    assert str(open_bundle(own).problems[0]).startswith(problem)


def test_a_table_behind_a_link_is_not_read(own: Path, tmp_path: Path):
    table = own / "trials" / "weak-1-1x1-r1" / "steps.parquet"
    table.rename(tmp_path / "elsewhere")
    table.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="is a link, which scalecurve never makes here"):
        open_bundle(own).trials[0].read("steps.parquet", 1 << 30)


def test_a_bundle_may_be_named_by_a_link(own: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(own)
    assert open_bundle(tmp_path / "link").problems == ()


def test_a_pipe_does_not_hang_the_reader(own: Path):
    home = own / "trials" / "weak-2-1x2-r1"
    (home / "trial.json").unlink()
    os.mkfifo(home / "trial.json")
    assert "not a regular file" in open_bundle(own).problems[0].what


def test_invalid_and_failed_trials_are_listed_and_enter_no_curve(tmp_path: Path):
    endings = {
        "weak-2-1x2-r1": (TrialPhase.invalid, "Oversubscribed", "2 workers on 1 core"),
        "weak-2-1x2-r2": (TrialPhase.failed, "RankKilled", "rank 1: SIGKILL"),
    }
    result = scaling([open_bundle(write_bundle(tmp_path, TINY, endings=endings, tables=False))])
    assert [len(s.measured) for s in result.series] == [1]
    assert [row[1:6] for row in sorted(excluded_table(result).spelled())] == [
        ["weak-2-1x2-r1", "weak", "2", "Invalid", "Oversubscribed"],
        ["weak-2-1x2-r2", "weak", "2", "Failed", "RankKilled"],
    ]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_no_damage_gives_a_traceback(tiny: Path, data: st.DataObject):
    """Flip, cut or delete bytes anywhere in a record or the experiment: a problem, or the same numbers."""
    files = [tiny / "experiment.yaml", *sorted(tiny.glob("trials/*/trial.json"))]
    file = data.draw(st.sampled_from(files))
    whole = file.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    action = data.draw(st.sampled_from(["flip", "cut", "delete", "insert"]))
    damaged = bytearray(whole)
    if action == "flip":
        damaged[at] ^= data.draw(st.integers(1, 255))
    elif action == "cut":
        del damaged[at:]
    elif action == "delete":
        del damaged[at : at + data.draw(st.integers(1, 200))]
    else:
        damaged[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    before = scaling_table(scaling([open_bundle(tiny)])).csv()
    try:
        file.write_bytes(bytes(damaged))
        bundle = open_bundle(tiny)
        after = scaling_table(scaling([bundle])).csv()
    finally:
        file.write_bytes(whole)
    if file.name == "trial.json":
        assert bundle.problems or after == before


def test_records_do_not_depend_on_the_process(tmp_path: Path):
    trial = make_plan(TINY).trials[0]
    assert run(trial, Truth(), [0, 0], True) == run(trial, Truth(), [0, 0], True)
