"""Ways for a run to be not what was asked for, each put into the program by one patch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

from scalecurve_api.features.horovod.strategy import TAPE
from scalecurve_worker.features.horovod import tensorflow_strategy as over_horovod
from scalecurve_worker.features.tensorflow import (
    program,
    strategies,
    training,
)
from scalecurve_worker.features.tensorflow.framework import keras, tf
from scalecurve_worker.process.failure import WorkloadError


def no_sum() -> AbstractContextManager[Any]:
    """Gradients stay where they are: every replica trains for itself, as fast as it can."""
    step = training.ReplicaTrainer._replica_step

    def alone(self: Any, inputs: Any, targets: Any, _: bool) -> Any:
        return step(self, inputs, targets, False)

    return mock.patch.object(training.ReplicaTrainer, "_replica_step", alone)


def other_ops() -> AbstractContextManager[Any]:
    """Whatever way of summing is asked for, it is another one."""
    return mock.patch.dict(
        strategies._CROSS_DEVICE_OPS, dict.fromkeys(strategies._CROSS_DEVICE_OPS, "ReductionToOneDevice")
    )


def nan() -> AbstractContextManager[Any]:
    """A loss that is no number."""

    def loss(logits: Any, targets: Any, smoothing: float) -> Any:
        return tf.reduce_mean(logits) * float("nan")

    return mock.patch.object(training, "cross_entropy", loss)


def one_replica() -> AbstractContextManager[Any]:
    """A strategy over the first device alone."""

    def first(names: Any, **more: Any) -> Any:
        return made(names[:1], **more)

    made = tf.distribute.MirroredStrategy
    return mock.patch.object(tf.distribute, "MirroredStrategy", first)


def own_world() -> AbstractContextManager[Any]:
    """Every process is a cluster of its own: TensorFlow trains alone, and says nothing."""
    config = strategies.tf_config

    def alone(addresses: Any, task: str, index: int) -> str:
        return config({task: addresses[task][index : index + 1]}, task, 0)

    return mock.patch.object(strategies, "tf_config", alone)


def half_batch() -> AbstractContextManager[Any]:
    """Half of the samples that a step was asked to have."""
    of = program.TensorFlowConfig.of
    return mock.patch.object(
        program.TensorFlowConfig, "of", lambda trial: replace(of(trial), batch=of(trial).batch // 2)
    )


def frozen() -> AbstractContextManager[Any]:
    """A learning rate of nothing: steps are timed, and nothing is trained."""
    make = training.make_optimizer
    return mock.patch.object(
        training, "make_optimizer", lambda optimizer: make(optimizer.model_copy(update={"learning_rate": 0.0}))
    )


def plain_strategy() -> AbstractContextManager[Any]:
    """One device where several were asked for."""
    return mock.patch.object(strategies.STRATEGIES, "get", return_value=strategies.ReplicaMaker(strategies.one_device))


def keras_optimizer() -> AbstractContextManager[Any]:
    """Horovod's optimizer for Keras in the tape's place: under Keras 3 it adds up nothing, and says nothing."""
    from horovod.tensorflow.keras import DistributedOptimizer

    make = training.make_optimizer

    def wrapped(asked: Any) -> Any:
        optimizer = DistributedOptimizer(make(asked))
        # It calls what is a property in Keras 3; nobody who trains by fit() comes to that.
        type(optimizer).variables = keras.optimizers.Optimizer.variables
        return optimizer

    patches = ExitStack()
    patches.enter_context(mock.patch.object(over_horovod.HorovodReplicas, "tape", lambda _, tape: tape))
    patches.enter_context(mock.patch.object(over_horovod.HorovodReplicas, "name", TAPE))
    patches.enter_context(mock.patch.object(training, "make_optimizer", wrapped))
    return patches


def other_sum_on_rank_1() -> AbstractContextManager[Any]:
    """Gradients that come to rank 1 otherwise than to the others."""
    made = over_horovod.HorovodReplicas.tape

    def tape(self: Any, plain: Any) -> Any:
        found = made(self, plain)
        if self.rank == 1:
            gradient = found.gradient
            found.gradient = lambda *given: [each * 1.5 for each in gradient(*given)]
        return found

    return mock.patch.object(over_horovod.HorovodReplicas, "tape", tape)


def bare_tape() -> AbstractContextManager[Any]:
    """No tape of Horovod's."""
    return mock.patch.object(over_horovod.HorovodReplicas, "tape", lambda _, tape: tape)


def chief_fails() -> AbstractContextManager[Any]:
    """A chief that cannot go on, while its workers and servers wait for a word."""
    return mock.patch.object(program, "Chief", side_effect=WorkloadError("the chief cannot go on"))


FAULTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "none": nullcontext,
    "no-sum": no_sum,
    "other-ops": other_ops,
    "nan": nan,
    "one-replica": one_replica,
    "own-world": own_world,
    "half-batch": half_batch,
    "frozen": frozen,
    "plain-strategy": plain_strategy,
    "chief-fails": chief_fails,
    "keras-optimizer": keras_optimizer,
    "other-sum-on-rank-1": other_sum_on_rank_1,
    "bare-tape": bare_tape,
}
