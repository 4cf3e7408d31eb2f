import pytest

from scalecurve_api.planning.axes import AxisError, axis_names, is_axis, resolve, same_value
from scalecurve_api.programs.torch import TorchWorkload
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.scaling import Batch
from scalecurve_api.text import spell_value

TORCH = axis_names(["torch"])


def test_known_axes() -> None:
    for name in ("precision", "options.compile", "batch.global", "env.NCCL_ALGO"):
        assert is_axis(name, TORCH)
    for name in ("env.", "options", "command", "data.shape", "crossDeviceOps"):
        assert not is_axis(name, TORCH), "lists, mappings and other programs' fields are no axes"
    assert "crossDeviceOps" in axis_names(["torch", "tensorflow", "nothing", 3])


@pytest.mark.parametrize("name", TORCH)
def test_every_axis_takes_its_own_default(name: str) -> None:
    outer, _, inner = name.partition(".")
    whole = {**TorchWorkload().wire(), "batch": {"global": 16, "perWorker": 4}}
    value = whole.get(outer, {}).get(inner) if inner else whole.get(outer)
    if value is not None:
        workload, batch = resolve(TorchWorkload(), Batch.model_validate(whole["batch"]), {name: value})
        assert (workload, batch.wire()) == (TorchWorkload(), whole["batch"])


def test_axes_are_written_over_what_stands_there() -> None:
    start = Workload.model_validate({"env": {"A": "1", "B": "2"}, "options": {"compile": True}})
    axes = {"env.A": 5, "options.channelsLast": True, "batch.global": 64, "model": "vgg16"}
    workload, batch = resolve(start, Batch(per_worker=8), axes)
    assert workload.env == {"A": "5", "B": "2"}
    assert (workload.options.compile, workload.options.channels_last) == (True, True)
    assert (batch.global_, batch.per_worker) == (64, 8)
    assert workload.model == "vgg16"


def test_nothing_to_write_changes_nothing() -> None:
    workload, batch = TorchWorkload(), Batch()
    assert resolve(workload, batch, {})[0] is workload


def test_switches_in_the_environment_are_spelled_as_in_yaml() -> None:
    assert resolve(TorchWorkload(), Batch(), {"env.A": True})[0].env == {"A": "true"}
    assert [spell_value(each) for each in (True, 1, 1.5, "x")] == ["true", "1", "1.5", "x"]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("precision", "fp8", "'fp32', 'tf32', 'bf16' or 'fp16'"),
        ("options.compile", "yes", "a boolean"),
        ("batch.global", 0, "at least 1"),
        ("optimizer.learningRate", "fast", "a number"),
        ("env.A B", "x", "the name of an environment variable"),
        ("env.A", "\0", "text without NUL characters"),
        ("model", "", "at least 1 character"),
    ],
)
def test_a_value_that_does_not_fit_names_its_axis(name: str, value: str | int, expected: str) -> None:
    with pytest.raises(AxisError) as caught:
        resolve(TorchWorkload(), Batch(), {"allReduce": "ring", name: value})
    assert (caught.value.name, caught.value.value, caught.value.expected) == (name, value, expected)


def test_the_blame_falls_on_the_right_variable() -> None:
    with pytest.raises(AxisError) as caught:
        resolve(TorchWorkload(), Batch(), {"env.A": "good", "env.AB": "bad\0"})
    assert caught.value.name == "env.AB"


def test_what_means_the_same() -> None:
    assert same_value(2, 2.0)
    assert same_value("a", "a")
    assert not same_value(1, True)
    assert not same_value(0, False)
    assert not same_value("1", 1)
