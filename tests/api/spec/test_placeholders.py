"""Placeholders in commands: what is one, what it stands for, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.planning.plan import make_plan
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.placeholders import fill, filled, values_of, variables
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.validation.validate import validate_text


def document(**spec: Any) -> dict[str, Any]:
    workload = {"program": "custom", "command": ["python", "train.py"], **spec.pop("workload", {})}
    sizes = {"global": 32, "perWorker": 8}
    scaling = spec.pop("scaling", {"modes": ["strong", "weak"], "workers": [1, 2], "batch": sizes})
    return {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": "mine"},
        "spec": {"scaling": scaling, "workload": workload, "measure": {"seed": 3, "repetitions": 1}, **spec},
    }


def trials(**spec: Any) -> dict[str, TrialSpec]:
    """Trials by their points, as ``strong-2``; with axes, by the value of the first as well."""
    plan = make_plan(ScalingExperiment.model_validate(document(**spec)))
    return {
        "-".join(map(str, (trial.point.mode.value, trial.point.workers, *trial.point.axes.values()))): trial
        for trial in plan.trials
    }


def problems(**spec: Any) -> list[str]:
    return [str(problem) for problem in validate_text(yaml.safe_dump(document(**spec)), "mine.yaml").problems]


def command(trial: TrialSpec) -> list[str]:
    workload = filled(trial).workload
    assert isinstance(workload, CustomWorkload)
    return workload.command


def test_every_point_has_its_own_values() -> None:
    words = ["--batch={batchPerWorker}", "{globalBatch}/{workers}", "{nodes}x{workersPerNode}"]
    words += ["{seed}", "{trialName}"]
    found = trials(workload={"command": words})
    assert command(found["strong-2"]) == ["--batch=16", "32/2", "1x2", "3000009", "strong-2-1x2-r1"]
    assert command(found["weak-2"]) == ["--batch=8", "16/2", "1x2", "3000009", "weak-2-1x2-r1"]


def test_a_step_of_several_batches_hands_the_command_a_part_of_its_samples() -> None:
    words = ["--bs={batchPerWorker/4}", "{globalBatch/4}", "{{batchPerWorker/4}}", "${batchPerWorker/4}"]
    found = trials(workload={"command": words})
    kept = ["{batchPerWorker/4}", "${batchPerWorker/4}"]
    assert command(found["strong-2"]) == ["--bs=4", "8", *kept]
    assert command(found["weak-2"]) == ["--bs=2", "4", *kept]


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("{batchPerWorker/3}", "expected a multiple of 3, parts of {batchPerWorker/3}"),
        ("{batchPerWorker/32}", "expected a multiple of 64 for strong scaling to 2 workers x 32 parts of"),
        ("{batchPerWorker/0}", "expected {batchPerWorker/N}, the batch divided by a whole number"),
        ("{globalBatch/x}", "expected {globalBatch/N}, the batch divided by a whole number"),
    ],
)
def test_a_part_that_is_none_is_refused(word: str, says: str) -> None:
    assert any(says in problem for problem in problems(workload={"command": ["python", "train.py", word]}))


def test_a_script_that_alone_knows_its_batch_needs_none_for_weak_scaling() -> None:
    weak = {"modes": ["weak"], "workers": [1, 2]}
    assert problems(scaling=weak) == []
    for workload in ({"command": ["train.py", "{batchPerWorker}"]}, {"instrument": "sdk"}):
        assert any("spec.scaling.batch.perWorker" in problem for problem in problems(scaling=weak, workload=workload))
    assert any("spec.scaling.batch.global" in problem for problem in problems(scaling={**weak, "modes": ["strong"]}))


def test_windows_and_warm_up_hold_whole_periods_of_exchange() -> None:
    local = {"syncEvery": 20}
    for steps, wrong in (
        (20, []),
        (40, []),
        (30, ["stepsPerWindow", "warmupSteps"]),
        (10, ["stepsPerWindow", "warmupSteps"]),
    ):
        measure = {"stepsPerWindow": steps, "warmupSteps": steps}
        told = problems(workload=local, measure=measure)
        assert [
            f"spec.measure.{name}: got {steps}; expected a multiple of 20" in problem
            for problem, name in zip(told, wrong, strict=True)
        ] == [True] * len(wrong)


def test_args_follow_the_command() -> None:
    workload = {
        "command": ["python", "train.py"],
        "args": ["--batch={batchPerWorker}", "{lr}"],
        "parameters": {"lr": 1},
    }
    trial = trials(workload=workload)["weak-2"]
    started = filled(trial).workload
    assert command(trial) == ["python", "train.py", "--batch=8", "1"]
    assert isinstance(started, CustomWorkload)
    assert started.args == []
    assert filled(filled(trial)) == filled(trial)
    (problem,) = problems(workload={"args": ["{batchPerWorkr}"]})
    assert "spec.workload.args[0]" in problem
    assert "{batchPerWorker}" in problem


def test_parameters_and_axes_by_short_and_full_name() -> None:
    workload = {
        "command": ["{seqLen}", "{parameters.seqLen}", "{lr}", "{flash}", "{name}", "{precision}", "{NCCL_ALGO}"],
        "parameters": {"seqLen": 1024, "lr": 3e-4, "flash": True, "name": "gpt 2"},
        "env": {"OUT": "/tmp/{trialName}", "SHELL": "${OUT}"},
        "workingDir": "runs/{seqLen}",
    }
    matrix = {"parameters.seqLen": [512, 2048], "precision": ["bf16"], "env.NCCL_ALGO": ["Ring"]}
    trial = trials(workload=workload, matrix=matrix)["weak-1-512-bf16-Ring"]
    assert command(trial) == ["512", "512", "0.0003", "true", "gpt 2", "bf16", "Ring"]
    started = filled(trial).workload
    assert started.env == {"OUT": f"/tmp/{trial.name}", "SHELL": "${OUT}", "NCCL_ALGO": "Ring"}
    assert started.environment["SCALECURVE_WORKING_DIR"] == "runs/512"


def test_the_same_values_are_variables() -> None:
    trial = trials(workload={"parameters": {"seqLen": 1024, "dropout_rate": 0.1}}, matrix={"model": ["gpt2"]})
    assert variables(trial["strong-2-gpt2"]) == {
        "SCALECURVE_BATCH_PER_WORKER": "16",
        "SCALECURVE_GLOBAL_BATCH": "32",
        "SCALECURVE_WORKERS": "2",
        "SCALECURVE_NODES": "1",
        "SCALECURVE_WORKERS_PER_NODE": "2",
        "SCALECURVE_SEED": "3000009",
        "SCALECURVE_TRIAL_NAME": trial["strong-2-gpt2"].name,
        "SCALECURVE_PARAMETER_SEQ_LEN": "1024",
        "SCALECURVE_PARAMETER_DROPOUT_RATE": "0.1",
        "SCALECURVE_PARAMETER_MODEL": "gpt2",
    }


UNTOUCHED = ['{"a": {"b": [1, {}]}}', "${HOME}/{1..4}", "{}", "{a,b}", "{ x }", "awk '{print $1}'", "${{ x }}", "{a-b}"]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_other_braces_stay(text: str) -> None:
    assert fill(text, {"x": "1", "a": "1", "HOME": "1", "print": "1"}) == text
    assert problems(workload={"command": ["sh", "-c", text]}) == []


@pytest.mark.parametrize(
    ("text", "became"), [("{{workers}}", "{workers}"), ("{{{workers}}}", "{{workers}}"), ("f'{{loss}}'", "f'{loss}'")]
)
def test_two_braces_are_one(text: str, became: str) -> None:
    assert command(trials(workload={"command": [text]})["weak-1"]) == [became]
    assert problems(workload={"command": [text]}) == []


@given(st.text(alphabet='{}$ab.1"', max_size=20))
def test_text_without_known_names_is_kept_but_for_escapes(text: str) -> None:
    result = fill(text, {"known": "1"})
    assert result == text or ("{{" in text and len(result) < len(text))


@given(st.text(alphabet="{}$ab", max_size=20))
def test_values_are_not_filled_again(value: str) -> None:
    assert fill("<{a}>", {"a": value, "b": "2"}) == f"<{value}>"


def test_a_misspelled_placeholder_is_refused() -> None:
    (problem,) = problems(workload={"command": ["train.py", "--batch", "{batchperworker}"]})
    assert problem.startswith("mine.yaml:")
    assert "spec.workload.command[2]: unknown placeholder {batchperworker}" in problem
    assert "{{batchperworker}} stands for {batchperworker} itself; did you mean '{batchPerWorker}'?" in problem


def test_what_is_refused_in_variables_folders_and_axes() -> None:
    lines = problems(workload={"env": {"A": "{nothing}"}, "workingDir": "{nowhere}"}, matrix={"env.B": ["{none}"]})
    fields = {line.split(": ")[1] for line in lines}
    assert fields == {"spec.workload.env.A", "spec.workload.workingDir", "spec.matrix.env.B"}


def test_an_ambiguous_short_name_needs_the_full_one() -> None:
    workload = {"parameters": {"source": "web"}, "command": ["{parameters.source}", "{data.source}"]}
    matrix = {"data.source": ["synthetic", "digits"]}
    assert problems(workload=workload, matrix=matrix) == []
    (problem,) = problems(workload={**workload, "command": ["{source}"]}, matrix=matrix)
    assert "got {source}; expected {data.source} or {parameters.source}" in problem


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"workers": 3}, "{workers} is set by the experiment for each point"),
        ({"seqLen": 1, "seq_len": 2}, "a name that differs from seqLen by more than case and underscores"),
        ({"seq-len": 1}, "letters, digits and underscores"),
        ({"x": [1]}, "a number"),
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, Any], reason: str) -> None:
    (problem,) = problems(workload={"parameters": parameters})
    assert "spec.workload.parameters." in problem
    assert reason in problem


def test_parameters_of_a_built_in_program_are_refused() -> None:
    experiment = document(matrix={"parameters.seqLen": [1, 2]})
    experiment["spec"]["workload"] = {"program": "torch"}
    (problem,) = validate_text(yaml.safe_dump(experiment), "mine.yaml").problems
    assert "unknown axis 'parameters.seqLen'" in str(problem)


def test_other_programs_start_as_they_are() -> None:
    experiment = document()
    experiment["spec"]["workload"] = {"program": "torch", "env": {"A": "{workers}"}}
    (trial, *_) = make_plan(ScalingExperiment.model_validate(experiment)).trials
    assert filled(trial) is trial
    assert variables(trial) == {}
    assert values_of(trial)["workers"] == str(trial.point.workers)
