"""A Keras model that validates and saves; CASE says what its callback is to do, KERAS_BACKEND with what."""

import json
import os
import sys
from pathlib import Path

import keras
import numpy

from scalecurve_worker.integrations.keras import ScaleCurveCallback

CASE = os.environ["CASE"]
keras.utils.set_random_seed(0)
seen = {"validations": 0, "first": None, "steps": 0}


class Counting(keras.callbacks.Callback):
    def on_test_begin(self, logs=None):
        seen["validations"] += 1
        seen["first"] = seen["first"] or seen["steps"]

    def on_train_batch_begin(self, batch, logs=None):
        seen["steps"] += 1


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=2 if CASE == "accumulate" else None)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
if CASE == "nan":
    loss = lambda labels, outputs: keras.ops.sum(outputs) * float("nan")  # noqa: E731
model.compile(optimizer, loss, steps_per_execution=2 if CASE == "execution" else 1)
inputs, labels = numpy.random.default_rng(0).normal(size=(14, 8)).astype("float32"), numpy.arange(14) % 2
path = Path(sys.argv[1]) / "kept.weights.h5"
then = {"stop": "stop", "nan": "stop", "accumulate": "stop", "continues": "continue"}.get(CASE)
callbacks = [Counting(), ScaleCurveCallback(then=then)]
callbacks.append(keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True))
epochs = {"few": 2, "continues": 20}.get(CASE, 1000)
model.fit(inputs, labels, batch_size=4, epochs=epochs, verbose=0, callbacks=callbacks, validation_data=(inputs, labels))
print(json.dumps({**seen, "saved": path.exists(), "shadowed": sorted({"save", "_should_eval"} & vars(model).keys())}))
