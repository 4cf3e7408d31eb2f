"""Runs the engine as the command line does, for tests that kill it: ``drive.py EXPERIMENT BUNDLE [OPTION...]``."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import yaml

import scalecurve_local
from scalecurve_api.spec.experiment import ScalingExperiment


def main() -> int:
    file, bundle, *options = sys.argv[1:]
    source = Path(file).read_text()
    stop = scalecurve_local.StopRequest()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    said: list[str] = []

    def report(progress: scalecurve_local.RunProgress) -> None:
        if not said or said[-1] != progress.message:
            said.append(progress.message)
            print(progress.message, file=sys.stderr, flush=True)

    try:
        result = scalecurve_local.run(
            ScalingExperiment.model_validate(yaml.safe_load(source)),
            source,
            Path(bundle),
            resume="resume" in options,
            oversubscribe="oversubscribe" in options,
            wait="refuse" not in options,
            report=report,
            stop=stop,
        )
    except scalecurve_local.EngineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps({name: [r.phase, r.reason, r.attempt] for name, r in result.records.items()}))
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
