"""Manifest of the feature importing."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "importing",
    "Read results that other tools wrote.",
    {
        "scalecurve.commands": {"importing": "scalecurve_importing.cli:VERBS"},
        "scalecurve.stated_curves": {"importing": "scalecurve_importing.published_file:read_published"},
    },
)
