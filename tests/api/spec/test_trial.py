"""A point in words."""

import pytest

from scalecurve_api.programs.degrees import Degrees
from scalecurve_api.spec.experiment import AxisValue
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point

TENSOR = Degrees(tensor=2, pipeline=2)


@pytest.mark.parametrize(
    ("degrees", "axes", "words"),
    [
        (None, {}, ""),
        (None, {"allReduce": "ring", "options.compile": True}, "allReduce=ring options.compile=true"),
        (TENSOR, {"parallelism.tensor": 2, "parallelism.schedule": "1f1b"}, f"{TENSOR.spelled} schedule=1f1b"),
        (Degrees(), {"options.bucketCapMb": 5}, "one worker options.bucketCapMb=5"),
    ],
)
def test_axes_in_words(degrees: Degrees | None, axes: dict[str, AxisValue], words: str) -> None:
    point = Point(
        mode=Mode.weak,
        workers=degrees.workers if degrees else 1,
        nodes=1,
        workers_per_node=degrees.workers if degrees else 1,
        axes=axes,
        parallelism=degrees,
        series="weak",
        name="weak-1",
    )
    assert point.axes_in_words == words
