"""Reads the trial that the engine wrote, which may be of another version than this image."""

import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scalecurve_api.contract import ENGINE_VERSION_ENV, OUT_ENV, TRIAL_ENV
from scalecurve_api.release import release
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.process.failure import WorkloadError

_NEWER_FIELD, _NEWER_VALUES = "extra_forbidden", ("enum", "literal_error")
_MOST = 5


def read_trial() -> TrialSpec | None:
    """Read the trial of ``SCALECURVE_TRIAL``, a path or the JSON itself; None where there is no engine.

    Raises:
        WorkloadError: a file cannot be read, has no trial in it, or has one that this version knows only in part.
    """
    text = os.environ.get(TRIAL_ENV, "").strip()
    if not text:
        return None
    source = TRIAL_ENV if text.startswith("{") else text
    try:
        text = text if text.startswith("{") else Path(text).read_text()
        return TrialSpec.model_validate_json(text)
    except OSError as error:
        raise WorkloadError(f"{TRIAL_ENV}={text}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise WorkloadError(f"{source}: {_why(error.errors(include_url=False))}") from error


def out_folder() -> Path | None:
    """Return the folder of ``SCALECURVE_OUT``, where it is set."""
    path = os.environ.get(OUT_ENV, "").strip()
    return Path(path) if path else None


def _why(problems: Sequence[ErrorDetails]) -> str:
    """Fields or values that came after this version, or what is wrong with the trial in any."""
    here, engine = release(), os.environ.get(ENGINE_VERSION_ENV, "").strip()
    other = [each for each in problems if each["type"] not in (_NEWER_FIELD, *_NEWER_VALUES)]
    if not other:
        newer = [
            _path(each) if each["type"] == _NEWER_FIELD else f"{_path(each)}: {each['input']}" for each in problems
        ]
        more = f" and {len(newer) - _MOST} more" if len(newer) > _MOST else ""
        unknown = f"this image's scalecurve {here} does not support {', '.join(newer[:_MOST])}{more}"
        if engine == here:
            return f"{unknown}; use an image built with the operator: both report version {here}"
        return f"{unknown}; use an image of the operator's version" + (f", {engine}" if engine else "")
    versions = f" (this image has scalecurve {here}, the operator {engine})" if engine not in ("", here) else ""
    return f"not a trial: {_path(other[0]) or 'the whole'}: {other[0]['msg']}{versions}"


def _path(problem: ErrorDetails) -> str:
    return ".".join(map(str, problem["loc"]))
