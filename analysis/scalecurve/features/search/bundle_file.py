"""``search.json``: how the points of a bundle were chosen from more candidates, and what that cost."""

from typing import Final, Literal

from pydantic import Field, ValidationError

from scalecurve.bundle.companions import BundleFile
from scalecurve.bundle.problem import FileError
from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.text import count

SEARCH_FILE = "search.json"
SEARCH_SCHEMA: Final = "scalecurve.dev/search/v1alpha1"
MAX_SEARCH_BYTES = 4 << 20


class RefusedPoint(Model):
    """A candidate that was dropped before anything ran."""

    mode: Text
    workers: Int64
    layout: Text
    ground: Literal["illegal", "memory", "same"]
    why: Text


class DroppedPoint(Model):
    """A candidate that did not pass a rung; ``of_best`` is its throughput over the best of its group."""

    mode: Text
    workers: Int64
    layout: Text
    of_best: float | None = Field(default=None, description="None without a valid trial")
    why: Text = ""


class SearchRung(Model):
    """One round of trials; the last one has the experiment's full length and repetitions."""

    number: Int64
    trials: Int64
    steps: Int64 = Field(description="timed steps of each trial")
    repetitions: Int64
    worker_hours: float
    dropped: list[DroppedPoint] = []


class SearchRecord(Model):
    """What ``run --search`` did before and in this bundle."""

    schema_: Literal["scalecurve.dev/search/v1alpha1"] = Field(default=SEARCH_SCHEMA, alias="schema")
    candidates: Int64 = Field(description="points of the experiment, refused ones included")
    refused: list[RefusedPoint] = []
    rungs: list[SearchRung]
    grid_trials: Int64 = Field(description="full trials of all candidates that can run")
    grid_worker_hours: float = Field(description="of those, by the step times that the search measured")
    grid_unknown: Int64 = Field(default=0, description="trials of the grid without a step time, not in the hours")

    @property
    def worker_hours(self) -> float:
        return sum(rung.worker_hours for rung in self.rungs)

    @property
    def trials(self) -> int:
        return sum(rung.trials for rung in self.rungs)

    @property
    def cost_share(self) -> float | None:
        """Of the full grid's worker-hours."""
        return self.worker_hours / self.grid_worker_hours if self.grid_worker_hours > 0 else None


def parse_search(data: bytes) -> SearchRecord:
    """Parse a search record.

    Raises:
        FileError: it is none.
    """
    try:
        return SearchRecord.model_validate_json(data)
    except ValidationError as error:
        raise FileError(f"not a search record: {count(error.error_count(), 'error')}") from error


SEARCH = BundleFile(SEARCH_FILE, MAX_SEARCH_BYTES, parse_search, selects=True)
