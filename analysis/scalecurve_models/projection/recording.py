"""Steps recorded by the worker's package, in a process of its own: nothing here imports torch."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from scalecurve_api.model import canonical_json
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.fitting.least_squares import FitError

_MODULE = "scalecurve_worker.extras.projection"
LIMIT_S = 1800


def record_steps(trials: Sequence[TrialSpec]) -> list[StepProgram | str]:
    """The step of each trial, or why it cannot be recorded.

    Raises FitError where torch is missing, or the process ends without an answer.
    """
    if not trials:
        return []
    if importlib.util.find_spec("torch") is None:
        raise FitError("a projection records the step with torch, which is not installed here: scalecurve[torch]")
    keys = [canonical_json(trial.sent()) for trial in trials]
    different = list(dict.fromkeys(keys))
    # No device takes part: the same step comes out on every machine.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", _MODULE],
        input="".join(f"{key}\n" for key in different),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != len(different):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise FitError(f"the step could not be recorded: {last[0]}")
    answers = dict(zip(different, map(_answer, lines), strict=True))
    return [answers[key] for key in keys]


def _answer(line: str) -> StepProgram | str:
    try:
        answer = json.loads(line)
        return str(answer["refused"]) if "refused" in answer else StepProgram.model_validate(answer["program"])
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise FitError(f"the step could not be recorded: not an answer of {_MODULE}: {error}") from error
