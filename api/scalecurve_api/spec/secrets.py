"""Secrets in a workload: which of its variables and words look like one, and the same workload without them.

A record, a report and a bundle are made to be shared, so the value of a secret is replaced by a digest before anything
is written. The digest is salted with the experiment's name and slow to compute: it shows that two trials used the same
value, and gives a guesser little.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from scalecurve_api.contract import HIDDEN_PREFIX
from scalecurve_api.problem import Path
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialSpec

HIDDEN = "redacted:"
_WORDS = frozenset(
    ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PW", "APIKEY", "KEY", "AUTH", "CRED", "CREDS")
)
_PLACES = frozenset(("FILE", "PATH", "DIR", "FOLDER", "URL", "HOST", "ID", "NAME"))
"""An ``API_KEY_FILE`` says where a secret is. (AWS' ``ACCESS_KEY_ID`` is public, too.)"""
_TOKENS = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|xox[abeprs]-[\w-]{10,}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,})|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
"""What services hand out under a prefix of their own, and ``user:password`` in a URL."""
_PLAIN = re.compile(r"|[-+\d.,e]+|true|false|yes|no|none|on|off|auto", re.IGNORECASE)
_LEAST = 6
"""Shorter values are not masked in output: they stand in too many other words."""


def secret_name(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret: ``HF_TOKEN``, ``--api-key``, ``wandbApiKey``."""
    words = {word.upper() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+", name)}
    return bool(words & _WORDS) and not words & _PLACES


def is_plain(text: str) -> bool:
    """Whether this is a number or a switch, which is no secret whatever its name."""
    return _PLAIN.fullmatch(text) is not None


def secrets_in(workload: Workload) -> Iterator[tuple[Path, str]]:
    """Every value that looks like a secret, with its place in the workload."""
    for name, text in workload.env.items():
        if secret_name(name) and not is_plain(text):
            yield ("env", name), text
        else:
            yield from ((("env", name), match[0]) for match in _TOKENS.finditer(text))
    previous = ""
    for place, word in _words(workload):
        option, equals, text = word.partition("=")
        if equals and secret_name(option) and not is_plain(text):
            yield place, text
        elif previous.startswith("-") and secret_name(previous) and not (word.startswith("-") or is_plain(word)):
            yield place, word
        else:
            yield from ((place, match[0]) for match in _TOKENS.finditer(word))
        previous = "" if equals else word


def _words(workload: Workload) -> Iterator[tuple[Path, str]]:
    for field, words in workload.command_fields.items():
        yield from (((field, index), word) for index, word in enumerate(words))


def workload_without_secrets(workload: Workload, experiment: str) -> Workload:
    """The same workload with a digest in the place of each secret; ``experiment`` is the salt."""
    env = dict(workload.env)
    words = {field: [*listed] for field, listed in workload.command_fields.items()}
    for (field, place), secret in secrets_in(workload):
        if field == "env":
            env[str(place)] = env[str(place)].replace(secret, hidden(secret, experiment))
        else:
            listed = words[str(field)]
            listed[int(place)] = listed[int(place)].replace(secret, hidden(secret, experiment))
    return workload.model_copy(update={"env": env, **words})


def experiment_without_secrets(experiment: ScalingExperiment) -> ScalingExperiment:
    """As ``workload_without_secrets``."""
    workload = workload_without_secrets(experiment.spec.workload, experiment.metadata.name)
    return experiment.model_copy(update={"spec": experiment.spec.model_copy(update={"workload": workload})})


def trial_without_secrets(trial: TrialSpec) -> TrialSpec:
    """As ``workload_without_secrets``."""
    return trial.model_copy(update={"workload": workload_without_secrets(trial.workload, trial.experiment)})


@lru_cache(4096)
def hidden(secret: str, experiment: str) -> str:
    """What stands in the place of a secret; a digest stays as it is."""
    if secret.startswith(HIDDEN):
        return secret
    digest = hashlib.pbkdf2_hmac("sha256", secret.encode(), f"scalecurve/{experiment}".encode(), 50_000)
    return HIDDEN + digest.hex()[:16]


def values_in(environment: Mapping[str, str], workload: Workload | None = None) -> list[str]:
    """The values to keep out of what a process prints: of secret names, and those that ``envFrom`` takes."""
    sources = workload.env_from if workload else ()
    names = {source.variable for source in sources if source.secret and source.variable}
    values = {
        text
        for name, text in environment.items()
        if name in names or secret_name(name) or name.startswith(HIDDEN_PREFIX)
    }
    if workload is not None:
        values |= {secret for _, secret in secrets_in(workload)}
    # Output is masked line by line, and a key file has many.
    values |= {line.strip() for text in values for line in text.splitlines()}
    return sorted((text for text in values if len(text) >= _LEAST and not is_plain(text)), key=len, reverse=True)


def masked(text: str, secrets: Iterable[str] | Mapping[str, str]) -> str:
    """The text with every secret replaced, by ``***`` unless a mapping says by what."""
    for secret in secrets:
        text = text.replace(secret, secrets[secret] if isinstance(secrets, Mapping) else "***")
    return text
