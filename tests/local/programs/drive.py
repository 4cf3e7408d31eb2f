"""Runs the engine as the command line does, for tests that kill it: ``drive.py EXPERIMENT BUNDLE [OPTION...]``."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import yaml

import scalecurve_local
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_local.execution import running_trial


def main() -> int:
    file, bundle, *options = sys.argv[1:]
    against = [option.removeprefix("against=").split("::") for option in options if option.startswith("against=")]
    running_trial.GRACE_S = float(os.environ.get("LAB_GRACE_S", running_trial.GRACE_S))
    requests = []
    for path, folder in [(file, bundle), *against]:
        source = Path(path).read_text()
        experiment = ScalingExperiment.model_validate(yaml.safe_load(source))
        requests.append(scalecurve_local.RunRequest(experiment, source, Path(folder)))
    stop = scalecurve_local.StopRequest()
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    said: list[str] = []

    def report(progress: scalecurve_local.RunProgress) -> None:
        if not said or said[-1] != progress.message:
            said.append(progress.message)
            print(progress.message, file=sys.stderr, flush=True)

    try:
        with ExitStack() as stack:
            servers = [stack.enter_context(scalecurve_local.ForkServer()) for _ in options if _ == "fork-server"]
            results = scalecurve_local.run_in_turns(
                requests,
                resume="resume" in options,
                add_session="add-session" in options,
                oversubscribe="oversubscribe" in options,
                wait="refuse" not in options,
                report=report,
                stop=stop,
                fork_server=servers[0] if servers else None,
            )
    except scalecurve_local.EngineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps({name: [r.phase, r.reason, r.attempt] for name, r in results[0].records.items()}))
    return max(result.exit_code for result in results)


if __name__ == "__main__":
    sys.exit(main())
