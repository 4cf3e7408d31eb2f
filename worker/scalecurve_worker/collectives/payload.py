"""The messages of one training step of a model: its gradients, one by one or in DDP's buckets."""

from collections.abc import Sequence

import torch
from torch._C._distributed_c10d import _DEFAULT_FIRST_BUCKET_BYTES, _compute_bucket_assignment_by_size

from scalecurve_api.programs.allreduce import AllReduceWorkload, Payload
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models

_MIB = 1 << 20


def gradient_elements(workload: AllReduceWorkload) -> list[int]:
    """Elements of each message, in the order in which a backward pass has them: the last layer's come first."""
    try:
        spec = models.spec(workload.model)
    except models.ModelError as error:
        raise WorkloadError(f"workload.model: {error}") from error
    # On the meta device: shapes alone, no memory and no random numbers.
    with torch.device("meta"):
        model = models.build(spec.name, classes=spec.classes, input_shape=spec.shape)
    gradients = [each for each in reversed(list(model.parameters())) if each.requires_grad]
    if workload.sizes.payload is Payload.gradients:
        return [each.numel() for each in gradients]
    return _buckets(gradients, workload)


def _buckets(gradients: Sequence[torch.Tensor], workload: AllReduceWorkload) -> list[int]:
    """As DDP's reducer lays them out after the first step: full buckets, after a small one where no size is named.

    Its limits are bytes of the gradients, which are float32 there; the messages have as many elements of any type.
    """
    named = workload.options.bucket_cap_mb
    limits = [_DEFAULT_FIRST_BUCKET_BYTES, 25 * _MIB] if named is None else [int(named * _MIB)]
    assigned, _ = _compute_bucket_assignment_by_size(list(gradients), limits)
    return [sum(gradients[index].numel() for index in bucket) for bucket in assigned]
