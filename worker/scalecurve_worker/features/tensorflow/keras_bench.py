"""The bench of a Keras model on TensorFlow: steps end when the host's call returns, windows on idle devices."""

import hashlib
from typing import Any

import numpy

from scalecurve_worker.features.tensorflow.devices import DeviceClock
from scalecurve_worker.features.tensorflow.framework import framework_versions, tf
from scalecurve_worker.process.failure import report_uncaught
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.observation import Observer


def tensorflow_bench(model: Any) -> Bench:
    """Join the trial with a built model; ``attach`` for TensorFlow."""
    report_uncaught(out_folder(), identify().rank)
    gpus = tf.config.get_visible_devices("GPU")
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU") if gpus else None
    session = Session("gpu:0" if gpus else None, name)
    session.facts.versions = framework_versions(bool(gpus))
    session.facts.parameters = model.count_params()
    if model.distribute_strategy.num_replicas_in_sync > 1:
        session.facts.strategy = type(model.distribute_strategy).__name__
    return Bench(session, DeviceClock(session.unix), observer=Observer(weights_digest(model)))


def weights_digest(model: Any) -> str:
    """Return a digest of all trainable weights."""
    digest = hashlib.blake2b(digest_size=16)
    for weight in model.trainable_weights:
        digest.update(numpy.ascontiguousarray(weight.numpy()).tobytes())
    return digest.hexdigest()
