"""Manifest of the feature compression."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "compression",
    "Compress gradients before they are sent.",
    {
        "scalecurve_worker.extras": {"comm-hook": "scalecurve_worker.features.compression.hooks:compress"},
    },
)
