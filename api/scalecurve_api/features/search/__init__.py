"""Manifest of the feature search."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "search",
    "Search a space of settings by successive halving.",
    {
        "scalecurve.after_run": {"search": "scalecurve.features.search.selector:SEARCH_ROUNDS"},
        "scalecurve.bundle_files": {"search": "scalecurve.features.search.bundle_file:SEARCH"},
        "scalecurve.selectors": {"search": "scalecurve.features.search.selector:SUCCESSIVE_HALVING"},
        "scalecurve.sections": {"search": "scalecurve.features.search.sections"},
    },
)
