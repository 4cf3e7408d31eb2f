"""Parse ``experiment.yaml`` and ``trial.json`` and trust neither: form, schema and digest are checked.

The digest is taken over the JSON as stored, not over the model: a record written before a field was added keeps its
digest. ``TrialRecord.compute_digest`` gives the same for what this version writes (a test holds them together). Schemas
are told apart by version, without the API group in front of it: a record outlives the name of its project.
"""

import json
from typing import Any, NoReturn

from pydantic import ValidationError

from scalecurve.bundle.problem import FileError
from scalecurve.bundle.sanity import check_plausible
from scalecurve_api import API_VERSION, VERSION
from scalecurve_api.programs.old_records import without_foreign_fields
from scalecurve_api.record.trial_record import RECORD_SCHEMA, TrialRecord, stored_digest
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation.document import read_documents

EXPERIMENT_FILE = "experiment.yaml"
RECORD_FILE = "trial.json"
MAX_EXPERIMENT_BYTES = 4 << 20
MAX_RECORD_BYTES = 64 << 20


def parse_experiment(data: bytes) -> ScalingExperiment:
    """The experiment as the engine stored it; raises FileError when it is not YAML, or no ScalingExperiment."""
    try:
        documents, problems = read_documents(data.decode(), EXPERIMENT_FILE)
    except UnicodeDecodeError as error:
        raise FileError(f"not YAML: {_first_line(error)}") from error
    if problems:
        raise FileError(f"not YAML: {problems[0]}")
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise FileError(f"{len(documents)} documents; expected one ScalingExperiment")
    tree = documents[0].value
    if _version_of(tree.get("apiVersion")) == VERSION:
        tree = {**tree, "apiVersion": API_VERSION}
    try:
        return ScalingExperiment.model_validate({**tree, "spec": without_foreign_fields(tree.get("spec"))})
    except (ValidationError, RecursionError) as error:
        raise FileError(f"not a ScalingExperiment: {_first_error(error)}") from error


def parse_record(data: bytes) -> TrialRecord:
    """A trial's record, its digest verified.

    Raises FileError when it is truncated, not of this format, changed after it was written, or impossible.
    """
    tree = _parse_json(data)
    if not isinstance(tree, dict) or "schema" not in tree:
        raise FileError("foreign record: not written by ScaleCurve")
    if _version_of(tree["schema"]) != _version_of(RECORD_SCHEMA):
        raise FileError(f"schema is {repr(tree['schema'])[:80]}, this version of ScaleCurve reads {RECORD_SCHEMA!r}")
    stated = tree.get("digest")
    if stated != stored_digest(tree):
        raise FileError("does not match its digest: changed or damaged after it was written")
    try:
        record = TrialRecord.model_validate({**tree, "schema": RECORD_SCHEMA})
    except (ValidationError, RecursionError) as error:
        raise FileError(f"not a trial record: {_first_error(error)}") from error
    check_plausible(record)
    return record


def _version_of(name: object) -> str | None:
    """What follows the API group: ``record/v1alpha1`` of ``GROUP/record/v1alpha1``."""
    return name.partition("/")[2] or None if isinstance(name, str) else None


def _parse_json(data: bytes) -> Any:
    if not data:
        raise FileError("empty")
    if b"\\ud" in data.lower() and not _is_unicode(data):
        raise FileError("not JSON: contains half of a surrogate pair")
    try:
        return json.loads(data, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        # A string without an end goes on to the file's.
        ended = error.pos >= len(error.doc.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        what = "truncated" if ended else "not JSON"
        raise FileError(
            f"{what}: {error.msg.removesuffix(' starting at')} at line {error.lineno}, column {error.colno}"
        ) from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise FileError(f"not JSON: {_first_line(error)}") from error


def _is_unicode(data: bytes) -> bool:
    """Whether every escape of a surrogate is one of a pair."""
    try:
        json.dumps(json.loads(data), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except (ValueError, RecursionError):
        pass  # not JSON at all: said by who reads it next
    return True


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is out of range")
    return value


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _first_error(error: ValidationError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:200]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{where}: {first['msg'][:200]}{more}"
