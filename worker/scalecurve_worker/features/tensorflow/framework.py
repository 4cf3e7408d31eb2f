"""TensorFlow and Keras, imported in the only way that this program can use.

Import ``tf`` and ``keras`` from here. Both read their settings when they are first imported.
"""

import os

# Another backend of Keras, named in a user's home, knows nothing of tf.distribute.
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# As NVML numbers them, which then says which GPU is which.
os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

import keras
import tensorflow as tf

__all__ = ["framework_versions", "keras", "tf"]


def framework_versions(on_gpu: bool) -> dict[str, str]:
    """Return the versions of TensorFlow and Keras, and of what TensorFlow was built with where a GPU is driven."""
    versions = {"tensorflow": str(tf.__version__), "keras": str(keras.__version__)}
    if on_gpu:
        build = tf.sysconfig.get_build_info()
        versions |= {name: str(build[f"{name}_version"]) for name in ("cuda", "cudnn") if f"{name}_version" in build}
    return versions
