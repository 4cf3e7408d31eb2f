"""A loader whose batches are measured, for frameworks that leave the loop to the script."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scalecurve_worker.integrations.measurement import Measurement
from scalecurve_worker.process.failure import WorkloadError


class MeasuredLoader:
    """A loader that gives its batches again and again until all is measured, and once from then on.

    ``updated`` tells whether the last batch was followed by an optimizer update: a step begins with the next one.
    Everything else is the original loader's.
    """

    def __init__(
        self, loader: Iterable[Any], measurement: Measurement, model: Callable[[], Any], updated: Callable[[], bool]
    ) -> None:
        self._loader = loader
        self._measurement = measurement
        self._model = model
        self._updated = updated

    def __iter__(self) -> Iterator[Any]:
        """The batches; where the training is to stop after the last window, none from then on.

        Raises:
            WorkloadError: the loader is empty, or cannot be repeated.
        """
        measurement, some = self._measurement, True
        while some and not measurement.stops:
            some = False
            for batch in self._loader:
                some = True
                self._begin(batch)
                if measurement.stops:
                    return
                yield batch
            if measurement.over:
                return
        if measurement.running or not measurement.joined:
            raise WorkloadError("ScaleCurve: the loader gives no batches (a generator cannot be repeated)")

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def loss(self, value: Any) -> None:
        """Record the loss of the last batch, a number or a scalar tensor; optional."""
        if self._measurement.running:
            self._measurement.loss(value.detach() if hasattr(value, "detach") else value)

    def _begin(self, batch: Any) -> None:
        measurement = self._measurement
        if measurement.over:
            return
        first = not measurement.joined
        if first:
            measurement.join(self._model())
        if (first or self._updated()) and not measurement.next_step():
            return
        measurement.batch(batch)
