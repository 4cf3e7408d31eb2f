"""Manifests that people have in place of an experiment: what they are, and the next step."""

from collections.abc import Iterator
from typing import Any

from scalecurve_api.problem import Path, Problem, ProblemCode, Violation, expected
from scalecurve_api.text import did_you_mean

KIND = "ScalingExperiment"
GROUP = "scalecurve.dev/"
CONVERTED = ("MPIJob", "PyTorchJob", "JobSet", "TrainJob", "Job")
"""Kinds that ``scalecurve experiment from`` makes an experiment of."""
_OTHERS = {
    "TFJob": "a training of TensorFlow; write an experiment with program tensorflow or custom",
    "RayJob": "a job of Ray; write an experiment with program custom of what its entrypoint starts",
    "Pod": "a pod; write an experiment with program custom of what it starts",
    "ScalingTrial": "a trial, which the operator makes; pass the experiment that it is of",
    "Kustomization": "for kustomize; pass what `kubectl kustomize FOLDER` prints",
    "List": "a list of objects; pass each as a document of its own",
}


def foreign_problem(value: dict[str, Any], file: str) -> Iterator[Problem]:
    """The one problem of a document that is an object of another kind; nothing for a misspelled experiment."""
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or kind == KIND or did_you_mean(kind, [KIND]):
        return
    if isinstance(version, str) and version.startswith(GROUP) and kind not in _OTHERS:
        return
    path: Path = ("kind",)
    if kind in CONVERTED and not (isinstance(version, str) and version.startswith(GROUP)):
        step = f"a {KIND}; `scalecurve experiment from {file}` makes one of this job"
        yield Problem(path, kind, expected(step))
    elif kind in _OTHERS:
        yield Problem(path, kind, Violation(ProblemCode.invalid, f"expected a {KIND}; this is {_OTHERS[kind]}"))
    else:
        jobs = ", ".join(CONVERTED)
        yield Problem(path, kind, expected(f"a {KIND}, or for `scalecurve experiment from` a job ({jobs})"))
