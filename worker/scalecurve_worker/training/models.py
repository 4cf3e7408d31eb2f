"""Looking up a model of the catalog for one framework."""

from scalecurve_api.programs.model_catalog import MODELS, Framework, ModelEntry, models_of
from scalecurve_api.registry import RegistryError
from scalecurve_api.text import did_you_mean


class ModelError(ValueError):
    """A model that the program does not have, or a shape, class count or option that it does not take."""


def find_model(name: str, framework: Framework) -> ModelEntry:
    """Look a model up by name or alias."""
    try:
        entry = MODELS.get(name) if name in MODELS else None
    except RegistryError as error:
        raise ModelError(str(error)) from error
    if entry is None or not getattr(entry, framework):
        names = models_of(framework)
        near = did_you_mean(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ModelError(f"program {framework} has no model {name!r}{hint} (available: {', '.join(names)})")
    return entry
