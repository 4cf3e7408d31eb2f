"""Starting from trained parameters, with everything or the head alone trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from scalecurve_api.contract import OUT_ENV
from scalecurve_api.programs.training import Trainable, Transfer
from scalecurve_api.record.checks.training import check_frozen_layers
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.accuracy import torch_program as accuracy
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models
from scalecurve_worker.torch.parameters import write_checkpoint
from scalecurve_worker.torch.program import run
from scalecurve_worker.torch.transfer import (
    begin,
    frozen_checksum,
    head_entries,
    load_checkpoint,
    train_mode,
)
from scalecurve_worker.training.checkpoints import convert_torchvision_names, open_folder
from scalecurve_worker.training.data import small_sets
from scalecurve_worker.training.state_files import write_safetensors
from tests.worker.worker_ranks import make_trial, records

SHAPE = (1, 8, 8)
NET = models.spec("resnet20")
HEAD = {"head.2.weight", "head.2.bias"}
DIGITS = {"model": "resnet20", "strategy": "single", "data": {"source": "digits", "shape": [1, 8, 8]}}
QUICK = {"windows": 1, "stepsPerWindow": 2, "maxForeignLoad": 1, "exposedCommunication": False}


def net(seed: int, classes: int = 10, name: str = "resnet20") -> nn.Module:
    torch.manual_seed(seed)
    return models.build(name, classes=classes, input_shape=SHAPE)


def trial(**workload: Any) -> TrialSpec:
    made = make_trial(1, workload={**DIGITS, **workload}, measure={**QUICK, "accuracy": {"epochs": 2}})
    wire = made.wire()
    wire["point"] |= {"batchPerWorker": 32, "globalBatch": 32}
    return TrialSpec.model_validate(wire)


def trained(of: TrialSpec, out: Path, monkeypatch: pytest.MonkeyPatch) -> RankRecord:
    out.mkdir()
    monkeypatch.setenv(OUT_ENV, str(out))
    run(of)
    (record,) = records(out, 1)
    return record


@pytest.mark.parametrize("name", ["resnet20", "mlp", "vgg16", "alexnet", "googlenet", "resnet50"])
def test_the_head_is_the_last_layer(name: str) -> None:
    spec = models.spec(name)
    with torch.device("meta"):
        last = [each for each, layer in models.build(name).named_modules() if isinstance(layer, nn.Linear)][-1]
    assert head_entries(spec, spec.shape, spec.classes) == {f"{last}.weight", f"{last}.bias"}


def test_a_model_of_text_has_no_head() -> None:
    with pytest.raises(models.ModelError, match="supports image models only"):
        head_entries(models.spec("gpt2_tiny"), (64,), 256)


@pytest.mark.parametrize("classes", [10, 5])
def test_a_checkpoint_comes_back_with_its_head_where_that_fits(tmp_path: Path, classes: int) -> None:
    before, after = net(1), net(2, classes)
    drawn = {name: tensor.clone() for name, tensor in after.state_dict().items()}
    file = write_checkpoint(before, open_folder(str(tmp_path / "new" / "folder")), "trial-1")
    assert [path.name for path in file.parent.iterdir()] == ["trial-1.pt"]
    noted = begin(after, Transfer(checkpoint=str(file)), NET, SHAPE, classes)
    assert noted["head"] == ("the checkpoint's" if classes == 10 else "new, for another number of classes")
    assert noted["parametersFrozen"] == 0
    for name, tensor in after.state_dict().items():
        origin = drawn if name in HEAD and classes != 10 else before.state_dict()
        assert torch.equal(tensor, origin[name]), name


def test_from_scratch_the_checkpoint_is_not_read() -> None:
    model = net(1)
    assert begin(model, Transfer(checkpoint="nowhere.pt", train=Trainable.scratch), NET, SHAPE, 10) == {}


def damaged(file: Path) -> None:
    write_checkpoint(net(1), file.parent, file.stem)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: None, "no such file (looked for from "),
        (damaged, "torch cannot read a state dict from it: "),
        (lambda file: file.write_bytes(b""), "torch cannot read a state dict from it: "),
        (lambda file: file.write_text("weights"), "torch cannot read a state dict from it: "),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (lambda file: torch.save(net(1), file), "torch cannot read a state dict from it: "),
        (lambda file: torch.save([1, 2], file), "not a state dict, which maps names to tensors"),
        (lambda file: torch.save({"epoch": 3}, file), "not a state dict, which maps names to tensors"),
        (
            lambda file: torch.save(net(1, name="resnet32").state_dict(), file),
            "different architecture: stages.9.body.0.0.weight is of no layer; ",
        ),
        (
            lambda file: torch.save({"layers.1.weight": torch.zeros(2, 3)}, file),
            "different architecture: stem.0.weight is missing; stem.1.weight is missing; stem.1.bias is missing and ",
        ),
    ],
)  # fmt: skip
def test_a_checkpoint_that_does_not_fit_is_told_in_one_line(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    file = tmp_path / "given.pt"
    make(file)
    model = net(2)
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(WorkloadError) as raised:
        load_checkpoint(model, str(file), HEAD)
    text = str(raised.value)
    assert text.startswith(f"workload.transfer.checkpoint: {file}: {said}")
    assert "\n" not in text
    assert all(torch.equal(tensor, drawn[name]) for name, tensor in model.state_dict().items())


def test_a_folder_that_cannot_be_written_to_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        WorkloadError, match=r"measure.accuracy.checkpoints: .*file/in: cannot be created: Not a directory"
    ):
        open_folder(str(tmp_path / "file" / "in"))


def names_of_torchvision(blocks: tuple[int, ...], convolutions: int) -> list[str]:
    """Names of a torchvision ResNet, by its own grammar and in its own order."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{each}" for each in norm)]
    for group, count in enumerate(blocks, 1):
        for block in range(count):
            place = f"layer{group}.{block}"
            for number in range(1, convolutions + 1):
                names += [f"{place}.conv{number}.weight", *(f"{place}.bn{number}.{each}" for each in norm)]
            if block == 0 and (group > 1 or convolutions == 3):
                names += [f"{place}.downsample.0.weight", *(f"{place}.downsample.1.{each}" for each in norm)]
    return [*names, "fc.weight", "fc.bias"]


@pytest.mark.parametrize(
    ("name", "blocks", "convolutions", "entries"),
    [("resnet18", (2, 2, 2, 2), 2, 122), ("resnet50", (3, 4, 6, 3), 3, 320), ("resnet101", (3, 4, 23, 3), 3, 626)],
)
def test_names_of_torchvision_are_ours(name: str, blocks: tuple[int, ...], convolutions: int, entries: int) -> None:
    theirs = names_of_torchvision(blocks, convolutions)
    with torch.device("meta"):
        ours = models.build(name).state_dict()
    # torchvision.models.resnet50().state_dict() has so many entries.
    assert len(theirs) == len(ours) == entries
    renamed = convert_torchvision_names({name: torch.tensor(index) for index, name in enumerate(theirs)})
    assert set(renamed) == set(ours)
    # Both list them in the order of the layers, so that equal places are equal entries.
    assert [int(value) for value in sorted(renamed.values(), key=int)] == list(range(entries))
    assert [each for each in renamed if "shortcut" not in each] == [each for each in ours if "shortcut" not in each]
    assert convert_torchvision_names(ours).keys() == ours.keys()


@pytest.mark.parametrize("name", ["vgg16", "alexnet"])
def test_names_of_torchvisions_classifiers_are_ours(name: str) -> None:
    """By torchvision's modules: ``features``, a pooling without parameters, ``classifier``."""
    with torch.device("meta"):
        ours = models.build(name).state_dict()
    places = {"vgg16": (0, 3, 6), "alexnet": (1, 4, 6)}[name]
    theirs = [each for each in ours if each.startswith("features.")]
    theirs += [f"classifier.{place}.{kind}" for place in places for kind in ("weight", "bias")]
    assert list(convert_torchvision_names(dict.fromkeys(theirs, 0))) == list(ours)


def test_safetensors_are_a_checkpoint_too(tmp_path: Path) -> None:
    before, after = net(1), net(2, classes=4)
    file = tmp_path / "weights.safetensors"
    write_safetensors(file, {name: value.numpy() for name, value in before.state_dict().items()})
    assert load_checkpoint(after, str(file), HEAD) == "new, for another number of classes"
    for name, value in after.state_dict().items():
        assert name in HEAD or torch.equal(value, before.state_dict()[name]), name
    file.write_bytes(b"x")
    with pytest.raises(WorkloadError, match=r"^workload.transfer.checkpoint: .*weights.safetensors: no safetensors"):
        load_checkpoint(after, str(file), HEAD)


def test_frozen_layers_take_no_part(tmp_path: Path) -> None:
    model = net(1)
    begin(model, Transfer(train=Trainable.head), NET, SHAPE, 10)
    before = frozen_checksum(model)
    train_mode(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    kept: list[Tensor] = []
    model.get_submodule("stages").register_forward_hook(lambda layer, inputs, output: kept.append(output))
    for _ in range(3):
        nn.functional.cross_entropy(model(torch.randn(4, *SHAPE)), torch.tensor([1, 2, 3, 4])).backward()
        optimizer.step()
    assert not any(features.requires_grad for features in kept)
    assert {name for name, parameter in model.named_parameters() if parameter.grad is not None} == HEAD
    assert frozen_checksum(model) == before
    # The checksum sees statistics as well as parameters.
    model.train()
    model(torch.randn(4, *SHAPE))
    assert frozen_checksum(model) != before
    assert frozen_checksum(net(1)) == []


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 images to train on, of which every step takes 32."""
    table = small_sets._table()[:320]
    monkeypatch.setattr(small_sets, "_table", lambda: table)


@pytest.mark.usefixtures("few_digits")
def test_only_the_head_changes_in_a_whole_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = trial()
    wire = everything.wire()
    wire["measure"]["accuracy"]["checkpoints"] = str(tmp_path / "kept")
    record = trained(TrialSpec.model_validate(wire), tmp_path / "all", monkeypatch)
    file = tmp_path / "kept" / f"{everything.name}.pt"
    assert record.options["trainedParameters"] == str(file)
    assert record.frozen_checksums == []
    transfer = {"checkpoint": str(file), "train": "head"}
    asked = trial(transfer=transfer, data={**DIGITS["data"], "classes": 11})  # type: ignore[dict-item]
    found = trained(asked, tmp_path / "head", monkeypatch)
    assert found.options["head"] == "new, for another number of classes"
    assert found.options["parametersTrained"] == 65 * 11
    assert found.options["parametersTrained"] + found.options["parametersFrozen"] == found.parameters
    assert len(found.frozen_checksums) == 3
    check = check_frozen_layers(asked, [found])
    assert (check.passed, check.detail) == (True, "frozen layers bit-equal at 3 moments on 1 rank")
    # The backward pass through the body is what falls away.
    assert record.flops_per_sample is not None
    assert found.flops_per_sample is not None
    assert found.flops_per_sample < 0.4 * record.flops_per_sample

    monkeypatch.setattr(accuracy, "train_mode", lambda module: module.train())
    broken = trained(asked, tmp_path / "fault", monkeypatch)
    check = check_frozen_layers(asked, [broken])
    expected = "the frozen layers of rank 0 differ after the training to accuracy from before training"
    assert (check.name, check.passed, check.detail) == ("FrozenChanged", False, expected)
