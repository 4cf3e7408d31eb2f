"""Reads many device scalars in one copy."""

from typing import Any

from scalecurve_worker.features.tensorflow.framework import tf


def read(scalars: list[Any]) -> list[float]:
    """Read the scalars' values; one kernel and one copy, which waits for the device."""
    return [float(value) for value in tf.stack([tf.cast(scalar, tf.float32) for scalar in scalars]).numpy()]


def add(scalars: list[Any]) -> Any:
    """Return the scalars' sum, on the device; nothing is read."""
    return tf.add_n([tf.cast(scalar, tf.float32) for scalar in scalars])
