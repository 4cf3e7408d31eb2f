"""No packed bundle prints an interval of throughput, time or money that spans more than a factor of two."""

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.cost import cost
from scalecurve.statistics.estimate import LARGEST_FACTOR
from scalecurve_api.spec.experiment import Cost

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
PACKED = [path for path in sorted(EVIDENCE.rglob("*.zip")) if path.name != "raw.zip"]


@pytest.mark.parametrize("path", PACKED, ids=lambda path: path.stem)
def test_an_interval_of_more_than_a_factor_of_two_is_not_known(path: Path) -> None:
    bundle = open_bundle(path)
    price = Cost(per_worker_hour=1.0, dataset_samples=1000, epochs=1)
    for table in (scaling([bundle]).table(), cost([bundle], price).table()):
        for row in table.plain()["rows"]:
            for name, cell in row.items():
                if not isinstance(cell, dict) or "method" not in cell:
                    continue
                if cell["method"] == "not known":
                    assert (cell["low"], cell["high"]) == (None, None)
                    assert cell["reason"], name
                elif cell["low"] is not None:
                    assert cell["high"] <= LARGEST_FACTOR * cell["low"] * (1 + 1e-9), (name, cell)
