"""All mistakes of a file come at once: none waits for another to be mended, and no guess is judged as if typed."""

import pytest

from scalecurve_api.validation.validate import validate_text

TWELVE = """\
apiVersion: scalecurve.dev/v1alpha1
kind: ScalingExperiment
metadata: {name: twelve}
spec:
  scaling:
    modes: [wek]
    workers: [1, 0, 2]
    batch: {perWorker: -8}
  workload:
    program: torch
    model: resnetl8
    data: {shape: [32, 32]}
    strateggy: ddp
    precision: fp33
    options: {fsdpGroupMb: 5}
  measure: {repetitions: zero, windows: 0, stepsPerWindow: many}
  cost: {perWorkerHour: -2}
"""
PLANTED = {
    "spec.scaling.modes[0]": ("[wek]", "[weak]"),
    "spec.scaling.workers[1]": ("[1, 0, 2]", "[1, 4, 2]"),
    "spec.scaling.batch.perWorker": ("-8", "8"),
    "spec.workload.model": ("resnetl8", "resnet18"),
    "spec.workload.data.shape": ("[32, 32]", "[3, 32, 32]"),
    "spec.workload.strateggy": ("strateggy", "strategy"),
    "spec.workload.precision": ("fp33", "fp32"),
    "spec.workload.options.fsdpGroupMb": ("fsdpGroupMb: 5", ""),
    "spec.measure.repetitions": ("zero", "3"),
    "spec.measure.windows": ("windows: 0", "windows: 3"),
    "spec.measure.stepsPerWindow": ("many", "20"),
    "spec.cost.perWorkerHour": ("perWorkerHour: -2", "perWorkerHour: 2"),
}


def fields(text: str) -> set[str]:
    return {problem.field for problem in validate_text(text, "x.yaml").problems}


def test_twelve_planted_mistakes_come_at_once() -> None:
    assert fields(TWELVE) == set(PLANTED)


@pytest.mark.parametrize("mended", PLANTED)
def test_whichever_is_mended_the_others_come(mended: str) -> None:
    assert fields(TWELVE.replace(*PLANTED[mended])) == set(PLANTED) - {mended}


def test_mended_it_is_right() -> None:
    text = TWELVE
    for before, after in PLANTED.values():
        text = text.replace(before, after)
    assert fields(text) == set()


@pytest.mark.parametrize(
    ("planted", "fields_"),
    [
        (("spec:", "apiVersion: x\nspec:"), {"apiVersion"}),
        (("metadata: {name: twelve}\n", ""), {"metadata"} | set(PLANTED)),
        (("program: torch", "program: custom"), None),
        (("perWorkerHour: -2", "currency: usd"), set(PLANTED) | {"spec.cost.currency"}),
    ],
)
def test_a_missing_field_hides_nothing(planted: tuple[str, str], fields_: set[str] | None) -> None:
    said = fields(TWELVE.replace(*planted))
    assert said
    assert fields_ is None or said == fields_


def test_a_mere_guess_of_a_model_is_not_judged() -> None:
    text = TWELVE.replace("resnetl8", "net18")
    assert "spec.workload.data.shape" not in fields(text)
    assert "spec.workload.model" in fields(text)


def test_two_numbers_are_no_image() -> None:
    (problem,) = validate_text(
        "apiVersion: scalecurve.dev/v1alpha1\nkind: ScalingExperiment\nmetadata: {name: x}\n"
        "spec:\n  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 8}}\n"
        "  workload: {program: torch, model: resnet18, data: {shape: [32, 32]}}\n",
        "x.yaml",
    ).problems
    assert str(problem) == (
        "x.yaml:6: spec.workload.data.shape: got [32, 32]; "
        "expected [channels, height, width] for model resnet18, such as [3, 224, 224]"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("cifar10", "cifar-10-python.tar.gz (SHA-256 6d958be0"),
        ("fashion-mnist", "train-images-idx3-ubyte.gz (MD5 8d4fb7e6"),
        ("image-folder", "train/<class>/<image>"),
        ("tokens", "a file of token numbers"),
    ],
)
def test_what_data_is_wanted_where_it_is_and_its_digest(source: str, said: str) -> None:
    text = (
        "apiVersion: scalecurve.dev/v1alpha1\nkind: ScalingExperiment\nmetadata: {name: x}\n"
        "spec:\n  scaling: {modes: [weak], workers: [1, 2], batch: {perWorker: 8}}\n"
        f"  workload: {{program: torch, data: {{source: {source}}}}}\n"
    )
    problems = validate_text(text, "x.yaml").problems
    assert any(problem.field == "spec.workload.data.path" and said in problem.message for problem in problems)
