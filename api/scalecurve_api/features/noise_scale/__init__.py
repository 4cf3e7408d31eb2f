"""Manifest of the feature noise scale."""

from scalecurve_api.registry import Feature

FEATURE = Feature(
    "noise_scale",
    "Measure the gradient noise scale while training.",
    {
        "scalecurve.facts": {"noiseScale": "scalecurve_api.features.noise_scale.facts:NOISE_SCALE"},
    },
)
