"""``--overlay``: the merged experiment is what is validated, planned, run, recorded, resumed and printed."""

from __future__ import annotations

import pytest
import yaml

from scalecurve.checks.validation import validate
from scalecurve_api.validation.document import MAX_BYTES

from .conftest import Desk


@pytest.fixture
def laid(desk: Desk) -> list[str]:
    """The words that lay two overlays over an experiment; the second undoes a part of the first."""
    desk.write(
        "full.yaml", scaling={"modes": ["strong", "weak"], "workers": [1, 2], "batch": {"global": 8, "perWorker": 4}}
    )
    (desk.folder / "small.yaml").write_text(
        "# Two cores.\nmetadata: {name: desk-small}\nspec:\n  scaling: {modes: [weak]}\n  measure: {windows: 5}\n"
    )
    (desk.folder / "short.yaml").write_text("spec: {measure: {windows: 2, maxWarmupSteps: 3}}\n")
    return ["full.yaml", "--overlay", "small.yaml", "--overlay", "short.yaml"]


def test_every_verb_that_reads_an_experiment_reads_the_merged_one(desk: Desk, laid: list[str]):
    assert desk.here("validate", *laid, code=0).out == "full.yaml: ok (desk-small)\n"
    assert len(desk.here("plan", *laid, "-o", "json", code=0).json["trials"]["rows"]) == 2
    assert "can run here" in desk.here("doctor", *laid, "--oversubscribe", code=0).out
    assert "dry run" in desk.here("run", *laid, "--dry-run", "--oversubscribe", code=0).out
    assert "--device is required to predict from an experiment" in desk.here("predict", *laid, code=2).err
    checked = validate([desk.folder / "full.yaml"], [desk.folder / "small.yaml"])
    assert checked[0].experiments[0].spec.measure.windows == 5


def test_the_merged_experiment_is_printed_whole_for_kubectl(desk: Desk, laid: list[str]):
    printed = desk.here("validate", *laid, "-o", "yaml", code=0).out
    assert printed.startswith("# full.yaml with small.yaml and short.yaml laid over it\napiVersion: scalecurve.dev/")
    wanted = yaml.safe_load((desk.folder / "full.yaml").read_text())
    wanted["metadata"]["name"] = "desk-small"
    wanted["spec"]["scaling"]["modes"] = ["weak"]
    wanted["spec"]["measure"]["maxWarmupSteps"] = 3
    assert yaml.safe_load(printed) == wanted
    both = desk.here("validate", "full.yaml", laid[0], "-o", "yaml", code=0).out
    assert both == "---\n".join([(desk.folder / "full.yaml").read_text()] * 2), "without overlays, as it is"


def test_a_merged_experiment_names_no_folder_of_its_maker(desk: Desk, laid: list[str]):
    absolute = [str(desk.folder / word) if word.endswith(".yaml") else word for word in laid]
    printed = desk.here("validate", *absolute, "-o", "yaml", code=0).out
    assert str(desk.folder) not in printed
    assert printed.startswith(f"# {desk.folder.name}/full.yaml with {desk.folder.name}/small.yaml and ")


def test_half_right_files_are_not_printed(desk: Desk, laid: list[str]):
    (desk.folder / "wrong.yaml").write_text("spec:\n  scaling:\n    workers: two\n")
    ran = desk.here("validate", *laid, "--overlay", "wrong.yaml", "-o", "yaml", code=2)
    assert ran.out == ""
    assert ran.err.startswith("wrong.yaml:3: spec.scaling.workers: got ")


@pytest.mark.parametrize("verb", ["validate", "plan", "run", "doctor"])
def test_an_overlay_that_is_none_gets_one_line(desk: Desk, laid: list[str], verb: str):
    (desk.folder / "list.yaml").write_text("- spec\n")
    for name, said in (
        ("absent.yaml", "absent.yaml: no such file; expected a YAML"),
        ("list.yaml", 'list.yaml:1: document: got ["spec"]; expected an overlay: one mapping of the fields that'),
        ("-", "-: got standard input, which is not read"),
    ):
        ran = desk.here(verb, *laid, "--overlay", name, code=2)
        (line,) = (ran.out + ran.err).splitlines()
        assert line.startswith(said)
    assert not (desk.folder / "results").exists()


def test_files_that_are_too_much_together_are_refused(desk: Desk, laid: list[str]):
    for name in ("first", "second"):
        half = {f"{name}{number}": "x" * 30_000 for number in range(MAX_BYTES // 2 // 30_000 + 1)}
        (desk.folder / f"{name}.yaml").write_text(yaml.safe_dump({"spec": {"workload": {"env": half}}}))
    assert desk.here("validate", "full.yaml", "--overlay", "first.yaml", code=0)
    ran = desk.here("validate", "full.yaml", "--overlay", "first.yaml", "--overlay", "second.yaml", code=2)
    assert ran.out.startswith("full.yaml with first.yaml and second.yaml laid over it: got ")
    assert f"characters; expected at most {MAX_BYTES}" in ran.out


def test_an_overlay_needs_an_experiment(desk: Desk, laid: list[str]):
    (desk.folder / "bundle").mkdir()
    assert "requires an experiment FILE" in desk.here("doctor", *laid[1:], code=2).err
    assert "--overlay applies to experiments only" in desk.here("predict", "bundle", *laid[1:], code=2).err
    assert "beside its experiment with --overlay FILE" in desk.here("run", "small.yaml", code=2).err


def test_a_run_records_the_merged_experiment_and_resumes_it_alone(desk: Desk, laid: list[str]):
    """Suspended, so that nothing trains: what is recorded and compared is the same."""
    (desk.folder / "held.yaml").write_text("spec: {suspend: true, measure: {stepsPerWindow: 5}}")
    words = ["run", *laid, "--overlay", "held.yaml"]
    folder = desk.folder / "results" / "desk-small"
    hint = desk.here(*words, code=0).err
    assert hint.rstrip().endswith(f"resume with: scalecurve {' '.join(words)} --bundle results/desk-small --resume")
    recorded = (folder / "experiment.yaml").read_text()
    assert recorded == desk.here("validate", *words[1:], "-o", "yaml", code=0).out

    desk.here(*words, "--resume", code=0)
    without = desk.here("run", "full.yaml", "--bundle", folder, "--resume", code=2).err
    assert "of another experiment: metadata.name is 'desk-small' there and 'desk' here" in without
    fewer = desk.here("run", *laid, "--resume", code=2).err
    assert "of another experiment: spec.measure.stepsPerWindow is 5 there and 10 here" in fewer
    (desk.folder / "whole.yaml").write_text(recorded)
    desk.here("run", "whole.yaml", "--resume", code=0)
    assert (folder / "experiment.yaml").read_text() == recorded
