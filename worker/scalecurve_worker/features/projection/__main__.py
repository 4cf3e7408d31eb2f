"""``python -m scalecurve_worker.features.projection``: a line of JSON for a trial in, a line with its step out."""

import json
import sys

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.projection.step import record_step
from scalecurve_worker.process.failure import WorkloadError


def main() -> int:
    """Answer every line with ``program``, or with ``refused`` and why."""
    for line in sys.stdin:
        try:
            program = record_step(TrialSpec.model_validate_json(line))
            answer: dict[str, object] = {"program": program.model_dump(mode="json", by_alias=True)}
        except WorkloadError as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
