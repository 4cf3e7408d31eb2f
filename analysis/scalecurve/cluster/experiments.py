"""Read an experiment and its trials from a cluster."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from scalecurve_api.lifecycle import ExperimentPhase
from scalecurve_api.model import SAFE_NAMES, SafeName
from scalecurve_api.problem import NOTHING, Problem, expected, printable
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.object_names import EXPERIMENT_LABEL
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from scalecurve_kube.address import ClusterAddress
from scalecurve_kube.blocking import BlockingCluster, connect
from scalecurve_kube.errors import ApiStatusError, ClusterError
from scalecurve_kube.resources import EXPERIMENTS, TRIALS

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_SAFE_NAME: TypeAdapter[str] = TypeAdapter(SafeName)
_FEW = 20


class ExperimentNotFoundError(ClusterError):
    """No such experiment; the message says where it was looked for and what exists."""


@dataclass(frozen=True)
class Watched:
    """A snapshot of an experiment in a cluster."""

    experiment: ScalingExperiment
    namespace: str
    status: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.experiment.metadata.name

    @property
    def phase(self) -> str:
        """As the operator says; Pending until it says something."""
        return str(self.status.get("phase") or ExperimentPhase.pending.value)

    @property
    def ended(self) -> bool:
        return self.phase in {phase.value for phase in ExperimentPhase if phase.final}

    @property
    def counts(self) -> dict[str, int]:
        return {name: int(count) for name, count in (self.status.get("counts") or {}).items() if count}

    @property
    def exit_code(self) -> int:
        """The exit code of ``run``: 1 if it failed or an ended trial did not succeed."""
        bad = any(self.counts.get(phase.value.lower()) for phase in _BAD)
        return 1 if bad or self.phase in (ExperimentPhase.failed.value, ExperimentPhase.cancelled.value) else 0

    @property
    def headline(self) -> str:
        message = self.status.get("message") or ("not picked up by an operator yet" if not self.status else "")
        return f"{self.name} in {self.namespace}: {self.phase}" + (f", {message}" if message else "")


_BAD = (TrialPhase.failed, TrialPhase.invalid, TrialPhase.cancelled)


@dataclass(frozen=True)
class BegunTrial:
    """A ScalingTrial object ``name``, as the API gives it."""

    name: str
    stored: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def trial(self) -> str:
        return str(self.stored["name"])

    @cached_property
    def spec(self) -> TrialSpec:
        """The trial, parsed on first use: a large experiment has thousands.

        Raises ClusterError when this version does not understand it.
        """
        try:
            return TrialSpec.model_validate(self.stored)
        except ValidationError as error:
            raise ClusterError(_not_understood(self.name, "a trial", error)) from error

    @property
    def phase(self) -> TrialPhase:
        return TrialPhase(self.status.get("phase") or TrialPhase.pending)


def split(arguments: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Split arguments into bundles and names of experiments in the cluster.

    An existing path is a bundle, and so is anything that is not a valid name.
    """
    names = [str(path) for path in arguments if not path.exists() and _NAME.fullmatch(str(path))]
    return [path for path in arguments if str(path) not in names], names


def find(address: ClusterAddress, name: str) -> tuple[BlockingCluster, Watched]:
    """Find an experiment by name.

    Raises:
        ExperimentNotFoundError: also when no cluster was named and none can be looked into.
        ClusterError: when a cluster was named and cannot be asked.
    """
    try:
        cluster = connect(address)
    except ClusterError as error:
        if address.explicit:
            raise
        raise ExperimentNotFoundError(f"{name}: no such folder, and no cluster to look in: {error}") from error
    return cluster, read(cluster, name)


def read(cluster: BlockingCluster, name: str) -> Watched:
    """The experiment as it is now.

    Raises:
        ExperimentNotFoundError: when there is none.
        ClusterError: when the cluster cannot be asked, or keeps what this version does not understand.
    """
    document = cluster.get(EXPERIMENTS, name)
    if document is None:
        raise ExperimentNotFoundError(_absent(cluster, name))
    try:
        experiment = ScalingExperiment.model_validate({**document, "status": None})
    except ValidationError as error:
        raise ClusterError(_not_understood(name, "an experiment", error)) from error
    return Watched(experiment, cluster.namespace, _readable(document.get("status") or {}))


def begun(cluster: BlockingCluster, experiment: str) -> Iterator[BegunTrial]:
    """The trials that were started, in no order; raises ClusterError when the cluster cannot be asked."""
    selector = f"{EXPERIMENT_LABEL}={experiment}"
    for document in cluster.list(TRIALS, labelSelector=selector):
        yield BegunTrial(document["metadata"]["name"], document["spec"], _readable(document.get("status") or {}))


def _readable(tree: Any) -> Any:
    """A status as it may be printed anywhere: every text on one line, with control characters spelled out."""
    if isinstance(tree, str):
        return printable(" ".join(tree.split()))
    if isinstance(tree, dict):
        return {name: _readable(value) for name, value in tree.items()}
    return [_readable(value) for value in tree] if isinstance(tree, list) else tree


def give_safe_names(trials: Iterable[BegunTrial]) -> list[BegunTrial]:
    """The same trials, each of whose names is one plain component of a path, and its own.

    Raises:
        ClusterError: when a name is not; any caller is about to write under these names.
    """
    checked: dict[str, BegunTrial] = {}
    for trial in trials:
        try:
            name = _SAFE_NAME.validate_python(trial.stored.get("name"))
        except ValidationError:
            problem = Problem(("spec", "name"), trial.stored.get("name", NOTHING), expected(SAFE_NAMES))
            raise ClusterError(f"ScalingTrial {trial.name}: {problem}; nothing was written") from None
        if name in checked:
            raise ClusterError(
                f"ScalingTrials {checked[name].name} and {trial.name} both have spec.name {name}; nothing was written"
            )
        checked[name] = trial
    return list(checked.values())


def _not_understood(name: str, kind: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return (
        f"{name}: the cluster has {kind} that this version does not understand: {where}: {first['msg']}; "
        "install the operator's version of scalecurve"
    )


def _absent(cluster: BlockingCluster, name: str) -> str:
    looked = f"{name}: no such folder, and no such experiment in namespace {cluster.namespace} of {cluster.name}"
    try:
        there = [document["metadata"]["name"] for document in cluster.list(EXPERIMENTS)]
    except ApiStatusError as refused:
        missing = "; ScaleCurve is not installed there: see `scalecurve doctor --cluster`"
        return looked + (missing if refused.status == 404 else "")
    few = ", ".join(sorted(there)[:_FEW]) + (f" and {len(there) - _FEW} more" if len(there) > _FEW else "")
    return f"{looked}; found: {few}" if there else f"{looked}; that namespace has none, see --namespace"
