"""The YAML of an experiment as a bundle keeps it: as its author wrote it, without its secrets."""

import re
from collections.abc import Iterator

from scalecurve_api.problem import Description, Problem, expected
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.secrets import experiment_without_secrets, hidden, masked, secrets_in
from scalecurve_api.validation.document import replace_scalars

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


def text_without_secrets(text: str, experiment: ScalingExperiment) -> str:
    """The YAML of an experiment with its secrets replaced, and otherwise as its author wrote it."""
    workload = experiment.spec.workload
    public = experiment_without_secrets(experiment).spec.workload
    words = public.command_fields
    secrets = sorted(secrets_in(workload), key=lambda place: -len(place[1]))
    values = {
        ("spec", "workload", *path): public.env[str(path[1])] if path[0] == "env" else words[str(path[0])][int(path[1])]
        for path, _ in secrets
    }
    salt = experiment.metadata.name
    hide = {secret.strip(): hidden(secret, salt) for _, secret in secrets if secret.strip()}
    # In comments too, and there alone: a secret that is a common word stands in names of fields.
    return _COMMENT.sub(lambda comment: masked(comment[0], hide), replace_scalars(text, values))


def secret_warnings(experiment: ScalingExperiment) -> Iterator[Problem]:
    """One for each field whose value looks like a secret; the value itself is not repeated."""
    secret = expected("workload.envFrom with a Secret; records and reports will hold a digest in its place")
    for path in dict.fromkeys(path for path, _ in secrets_in(experiment.spec.workload)):
        yield Problem(("spec", "workload", *path), Description("a value that looks like a secret"), secret)
