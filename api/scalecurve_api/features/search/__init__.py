"""Manifest of the feature search."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "search",
    "Search a space of settings by successive halving.",
    {
        "scalecurve.after_run": {"search": "scalecurve.cli.search:SEARCH_ROUNDS"},
        "scalecurve.bundle_files": {"search": "scalecurve.bundle.search_file:SEARCH"},
        "scalecurve.selectors": {"search": "scalecurve.cli.search:SUCCESSIVE_HALVING"},
        "scalecurve.sections": {"search": "scalecurve.reporting.features.search"},
    },
)
