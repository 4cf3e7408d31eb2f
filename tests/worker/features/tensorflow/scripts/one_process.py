"""Several trials of one process in turn: TensorFlow is loaded once. Reads CASES; leaves what each came to say."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from faults import FAULTS

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.features.tensorflow.program import run
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.startup import prepare

SAID = "said.json"


def main() -> None:
    """Run every case in its own folder of OUT."""
    prepare()
    out = Path(os.environ[OUT_ENV])
    said: dict[str, str] = {}
    for name, (fault, trial) in json.loads(os.environ["CASES"]).items():
        os.environ |= {OUT_ENV: str(out / name), TRIAL_ENV: json.dumps(trial)}
        try:
            with FAULTS[fault]():
                run(TrialSpec.model_validate(trial))
        except WorkloadError as error:
            said[name] = str(error)
    # Images for TensorFlow have no torch.
    assert "torch" not in sys.modules
    (out / SAID).write_text(json.dumps(said))


if __name__ == "__main__":
    main()
