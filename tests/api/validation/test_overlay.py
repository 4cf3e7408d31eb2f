"""Overlays: RFC 7386's merge, the file and line that an error names, and YAML that is read back as it was."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.validation.document import Document, read_documents, write_documents
from scalecurve_api.validation.overlay import lay_over, read_overlay
from scalecurve_api.validation.validate import Validated, validate_text
from tests.api.example_experiments import BASE

BASE_TEXT = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: example}
spec:
  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 8}}
  workload:
    model: resnet18
    data: {source: synthetic, shape: [3, 32, 32]}
"""


def merged(value: Any, patch: Any) -> Any:
    return lay_over(Document("base", value), [Document("overlay", patch)])[0].value


def validated(*overlays: str, base: str = BASE_TEXT) -> Validated:
    read = []
    for number, text in enumerate(overlays, 1):
        overlay, problems = read_overlay(text, f"overlay{number}.yaml")
        assert overlay is not None
        assert not problems
        read.append(overlay)
    return validate_text(base, "base.yaml", read)


def problems(*overlays: str, base: str = BASE_TEXT) -> list[str]:
    return [str(problem) for problem in validated(*overlays, base=base).problems]


@pytest.mark.parametrize(
    ("value", "patch", "wanted"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_rfc_own_examples(value: Any, patch: Any, wanted: Any) -> None:
    """Appendix A of RFC 7386, those whose document and patch are mappings."""
    assert merged(value, patch) == wanted


NAMES = st.text("ab", max_size=2)
LEAVES = st.none() | st.booleans() | st.integers() | st.text("ab") | st.lists(st.integers(), max_size=2)
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=12)
MAPPINGS = st.dictionaries(NAMES, TREES, max_size=3)


def without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}


@settings(max_examples=50)
@given(MAPPINGS, MAPPINGS)
def test_laws_of_the_merge(value: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((value, patch))
    after = merged(value, patch)
    assert merged(after, patch) == after, "again changes nothing"
    assert merged({}, patch) == without_nulls(patch)
    assert merged(value, {}) == value
    assert {name: after[name] for name in value.keys() - patch.keys()} == {
        name: value[name] for name in value.keys() - patch.keys()
    }
    assert repr((value, patch)) == before, "neither is changed"


def test_an_overlay_changes_the_experiment_and_later_ones_the_earlier() -> None:
    small = "metadata: {name: small}\nspec: {workload: {model: mlp, data: null}, scaling: {workers: [2, 4]}}\n"
    (experiment,) = validated(small).experiments
    assert (experiment.metadata.name, experiment.spec.workload.model) == ("small", "mlp")
    assert experiment.spec.scaling.workers == [2, 4]
    assert experiment.spec.scaling.batch.per_worker == 8
    (again,) = validated(small, "spec: {workload: {model: resnet20}}").experiments
    assert (again.metadata.name, again.spec.workload.model) == ("small", "resnet20")
    assert validated("apiVersion: scalecurve.dev/v1alpha1\nkind: ScalingExperiment\n").experiments


def test_an_error_names_the_file_that_it_was_written_in() -> None:
    wrong = BASE_TEXT.replace("[weak]", "[waek]").replace("perWorker: 8", "perWorker: eight")
    overlay = "spec:\n  scaling:\n    batch: {global: many}\n    modes: [strnog]\n"
    assert [line.split(": got")[0] for line in problems(overlay, base=wrong)] == [
        "base.yaml:5: spec.scaling.batch.perWorker",
        "overlay1.yaml:3: spec.scaling.batch.global",
        "overlay1.yaml:4: spec.scaling.modes[0]",
    ]
    first, second = "spec: {workload: {model: 1, precision: odd}}", "spec:\n  workload:\n    model: 2\n"
    assert [line.split(": got")[0] for line in problems(first, second)] == [
        "overlay1.yaml:1: spec.workload.precision",
        "overlay2.yaml:3: spec.workload.model",
    ]


@pytest.mark.parametrize(
    ("overlay", "start"),
    [
        (
            "spec:\n  scaling:\n    workers: null\n",
            "overlay1.yaml:3: spec.scaling.workers: required",
        ),
        ("metadata:\n", "overlay1.yaml:1: metadata: required"),
        (
            "spec:\n  workload:\n    data: {source: cifar10}\n",
            "overlay1.yaml:3: spec.workload.data.path: required",
        ),
        (
            "spec:\n  workload:\n    modle: mlp\n",
            "overlay1.yaml:3: spec.workload.modle: unknown field 'modle'",
        ),
        ("a: 1\nspec: [1]\n", "overlay1.yaml:2: spec: got [1]; expected a mapping"),
        ("spec: {}\nkind: Job\n", 'overlay1.yaml:2: kind: got "Job"; expected "ScalingExperiment" as in base.yaml'),
        (
            "apiVersion: null\n",
            'overlay1.yaml:1: apiVersion: got null; expected "scalecurve.dev/v1alpha1" as in base',
        ),
    ],
)
def test_what_an_overlay_breaks_has_its_place(overlay: str, start: str) -> None:
    found = problems(overlay)
    assert any(line.startswith(start) for line in found), found


def test_what_the_experiment_lacks_by_itself_is_said_of_the_experiment() -> None:
    base = BASE_TEXT.replace("workers: [1, 2], ", "")
    (line,) = problems("spec: {scaling: {modes: [strong], batch: {global: 8}}}", base=base)
    assert line.startswith("base.yaml:5: spec.scaling.workers: required")
    assert not problems("spec: {scaling: {workers: [2, 4]}}", base=base), "and an overlay may complete it"


@pytest.mark.parametrize(
    ("text", "line", "given"),
    [
        ("", None, "an empty file"),
        ("# nothing\n", None, "an empty file"),
        ("null\n", 1, "an empty document"),
        ("# a list\n- spec\n", 2, ["spec"]),
        ("a: 1\n---\nb: 2\n", None, "2 documents"),
        ("a: 1\na: 2\n", 2, "a duplicate key"),
        ("a: [1\n", 2, None),
    ],
)
def test_what_is_no_overlay(text: str, line: int | None, given: object) -> None:
    overlay, (problem,) = read_overlay(text, "overlay.yaml")
    assert overlay is None
    assert (problem.file, problem.line) == ("overlay.yaml", line)
    assert given is None or problem.got == given


def test_an_overlay_by_itself_is_told_where_it_belongs() -> None:
    (problem,) = validate_text("spec: {scaling: {workers: [1]}}", "overlay.yaml").problems
    assert problem.got == "neither apiVersion nor kind"
    assert "--overlay FILE" in problem.message


def test_every_document_of_a_file_gets_it() -> None:
    text = yaml.safe_dump_all([BASE, {**BASE, "metadata": {"name": "other"}}])
    found = validated("spec: {workload: {model: mlp}}", base=text)
    assert [each.metadata.name for each in found.experiments] == ["example", "other"]
    assert {each.spec.workload.model for each in found.experiments} == {"mlp"}
    assert problems("spec: {}", base="[1]\n")[0].startswith("base.yaml:1: document: got [1]")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
SPELLINGS = ["1e3", "0o17", "0b1", "1_000", "y", "No", "2026-11-20", "<<", "=", "~", "", "1:30", ".5", "0x1f", "2x4"]
VALUES = st.recursive(
    SCALARS | st.sampled_from(SPELLINGS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=3))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    documents, wrong = read_documents(write_documents([value, value]), "file.yaml")
    assert not wrong
    assert [each.value for each in documents] == [value, value]


@pytest.mark.parametrize("text", ["1e3", "0o17", "y", "N", "+1", "1_000", ".5"])
def test_text_that_another_reader_takes_for_a_number_is_quoted(text: str) -> None:
    assert write_documents([{"a": text}]) in (f'{{a: "{text}"}}\n', f'a: "{text}"\n', f"{{a: '{text}'}}\n")
