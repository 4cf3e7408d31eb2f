"""Extra-P on points from stdin, for `benchmarks.prediction`; runs in an environment of its own with `extrap` installed.

    python benchmarks/prediction/extrap_points.py < cases.jsonl  # {"points": [[workers, samples/s], ...], "workers": N}

Prints one predicted throughput per line, by the default modeler of a single parameter on the time per sample of one
worker, or null.
"""

import importlib
import json
import sys
from typing import Any


def predicted(points: list[list[float]], workers: int) -> float | None:
    """Samples/s at ``workers`` from (workers, samples/s)."""
    entities = "extrap.entities"
    coordinate: Any = importlib.import_module(f"{entities}.coordinate").Coordinate
    measurement: Any = importlib.import_module(f"{entities}.measurement").Measurement
    callpath: Any = importlib.import_module(f"{entities}.callpath").Callpath("step")
    metric: Any = importlib.import_module(f"{entities}.metric").Metric("time")
    modeler: Any = importlib.import_module("extrap.modelers.single_parameter.basic").SingleParameterModeler()
    measured = [measurement(coordinate(count), callpath, metric, [count / rate]) for count, rate in points]
    seconds = float(modeler.model([measured])[0].hypothesis.function.evaluate(workers))
    return workers / seconds if seconds > 0 else None


if __name__ == "__main__":
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(predicted(case["points"], case["workers"])))
