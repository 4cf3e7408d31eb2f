"""A ScalingExperiment object -> the typed experiment, with every rule checked; what cannot run is said here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.validation import rules

_MOST = 3


class NotRunnable(ValueError):
    """An experiment that can never run; the message names the fields, what was given and what is allowed."""


def read_experiment(body: Mapping[str, Any]) -> ScalingExperiment:
    """The experiment of an object as the API server stores it.

    Raises:
        NotRunnable: with up to three of its problems.
    """
    wire = {name: body[name] for name in ("apiVersion", "kind", "metadata", "spec") if name in body}
    try:
        experiment = ScalingExperiment.model_validate(wire)
    except ValidationError as error:
        said = [f"{_path(entry['loc'])}: {entry['msg']}" for entry in error.errors(include_url=False)]
        raise NotRunnable(_some(said)) from error
    found = rules.check(experiment)
    if found:
        raise NotRunnable(_some([f"{_path(path)}: {given}; allowed: {allowed}" for path, given, allowed, _ in found]))
    return experiment


def _path(parts: tuple[Any, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _some(said: list[str]) -> str:
    more = f"; and {len(said) - _MOST} more" if len(said) > _MOST else ""
    return "; ".join(said[:_MOST]) + more
