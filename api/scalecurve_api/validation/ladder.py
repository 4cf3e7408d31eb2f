"""Rules of ``scaling.batch.ladder``."""

from collections.abc import Iterator

from scalecurve_api.model import MOST_COUNT
from scalecurve_api.problem import Path, Problem, expected, forbidden, unsupported
from scalecurve_api.spec.experiment import LADDER_AXIS, ExperimentSpec
from scalecurve_api.spec.scaling import Mode

_LADDER: Path = ("spec", "scaling", "batch", "ladder")


def ladder_problems(spec: ExperimentSpec) -> Iterator[Problem]:
    """A ladder raises the batch per worker, so nothing else sets it, and only weak scaling keeps it."""
    batch = spec.scaling.batch
    if batch.ladder is None:
        return
    if batch.per_worker is not None:
        yield Problem((*_LADDER[:-1], "perWorker"), batch.per_worker, forbidden("set by batch.ladder"))
    if LADDER_AXIS in spec.matrix:
        yield Problem(("spec", "matrix", LADDER_AXIS), list(spec.matrix[LADDER_AXIS]), forbidden("set by batch.ladder"))
    if Mode.strong in spec.scaling.modes:
        modes = [mode.value for mode in spec.scaling.modes]
        yield Problem(
            ("spec", "scaling", "modes"),
            modes,
            unsupported("with batch.ladder, which raises the batch per worker", "[weak]"),
        )
    if not spec.workload.takes_batch:
        yield Problem(_LADDER, spec.workload.program, expected("a program that has a batch"))
    if (largest := batch.ladder.batches[-1]) > MOST_COUNT:
        smaller = f"a smaller factor or maxBatches: the largest batch would be {largest:,}, above {MOST_COUNT:,}"
        yield Problem((*_LADDER, "maxBatches"), batch.ladder.max_batches, expected(smaller))
