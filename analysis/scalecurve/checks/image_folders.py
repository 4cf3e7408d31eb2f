"""Image folders of an experiment that are on this machine: refused before a trial is started, not once it runs."""

from collections.abc import Iterator
from pathlib import Path

from scalecurve_api.problem import Problem, expected, forbidden
from scalecurve_api.programs.data import DataSource, TrainingData
from scalecurve_api.programs.training import TrainingWorkload
from scalecurve_api.spec.experiment import ScalingExperiment

_PATH = ("spec", "workload", "data", "path")
_VALIDATION = ("spec", "workload", "data", "validation")


def folder_problems(experiment: ScalingExperiment) -> Iterator[Problem]:
    """What is wrong with the folder of source image-folder; nothing where it is on another machine, or an axis."""
    workload = experiment.spec.workload
    if not isinstance(workload, TrainingWorkload) or workload.data.source is not DataSource.image_folder:
        return
    if workload.data.path is None or any(axis.startswith("data.") for axis in experiment.spec.matrix or {}):
        return
    folder = Path(workload.data.path).expanduser()
    if folder.is_dir():
        yield from _problems(folder, workload.data)


def _problems(folder: Path, data: TrainingData) -> Iterator[Problem]:
    train, val, test = (_classes(folder / name) for name in ("train", "val", "test"))
    if data.validation is not None:
        if train and val:
            yield Problem(_VALIDATION, data.validation, forbidden(f"{folder} has train and val"))
        elif not train and not _classes(folder) - {"train", "val", "test"}:
            yield Problem(_PATH, data.path, expected("a folder with train/<class>/<image>, or with <class>/<image>"))
        return
    if not train:
        split = "a folder with train/<class>/<image> beside val or test"
        if _classes(folder):
            split += ", or data.validation set to the share of <class>/<image> to hold out"
        yield Problem(_PATH, data.path, expected(split))
    elif not val and not test:
        images = " (the images in test have no folders of classes, and so no labels)" if _files(folder / "test") else ""
        split = "a folder with val/<class>/<image> or test/<class>/<image> beside train, or data.validation set"
        yield Problem(_PATH, data.path, expected(f"{split} to the share to hold out{images}"))
    else:
        held = "val" if val else "test"
        for name in sorted((val or test) - train)[:1]:
            yield Problem(_PATH, data.path, expected(f"only classes of train: {held}/{name} is none of them"))


def _classes(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")}


def _files(folder: Path) -> bool:
    return folder.is_dir() and any(entry.is_file() for entry in folder.iterdir())
