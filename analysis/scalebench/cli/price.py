"""A price as options give it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalebench.cli import EXIT_INPUT
from scalebench.cli.output import fail

if TYPE_CHECKING:
    from scalebench_api.experiment import Cost


def price_of(
    per_worker_hour: float | None, currency: str, dataset_samples: int | None, epochs: int | None
) -> Cost | None:
    """The price that takes the place of the experiments', None where no option names one; else a clear end."""
    from pydantic import ValidationError

    from scalebench_api.experiment import Cost
    from scalebench_api.wording import plain

    if per_worker_hour is None:
        if dataset_samples is not None or epochs is not None:
            fail("--dataset-samples and --epochs go with --per-worker-hour", EXIT_INPUT)
        return None
    try:
        return Cost(per_worker_hour=per_worker_hour, currency=currency, dataset_samples=dataset_samples, epochs=epochs)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        fail(f"--{option}: given {first['input']!r}; allowed: {plain(first['msg'])}", EXIT_INPUT)
