"""One worker's step of other models than the measured one, recorded in the bundle of the run before it begins.

    python docs/evidence/gpu/scripts/sealed_models.py EXPERIMENT --measured BUNDLE --record BUNDLE
    scalecurve run EXPERIMENT --bundle BUNDLE --resume && scalecurve predict BUNDLE --score

`predict` refuses a model that no worker trained. Two rules, from the recorded step of each model:

    projection    the measured model's step, scaled by the roofline time of both recorded steps
    shapes        the roofline time of the recorded step at the card's full peaks: nothing is measured
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sealed_batches import at_batch, measured_in
from scalecurve.bundle.open import open_bundle
from scalecurve.cli.output import load_experiment
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.step_program import StepProgram
from scalecurve_api.release import release
from scalecurve_models.projection.error_ledger import PredictedPoint, RecordedPrediction, record_prediction
from scalecurve_models.projection.projection import record_steps
from scalecurve_models.projection.worker import balance_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--overlay", type=Path, action="append", default=[])
    parser.add_argument("--measured", type=Path, required=True)
    parser.add_argument("--record", type=Path, required=True)
    arguments = parser.parse_args()
    experiment, text = load_experiment(arguments.experiment, tuple(arguments.overlay))
    bundle = open_bundle(arguments.measured)
    worker = measured_in(bundle)
    batch = max(worker.seconds)
    trial, source = make_plan(experiment).trials[0], bundle.trials[0].spec
    steps = record_steps([at_batch(source, batch), trial])
    known, target = (step for step in steps if isinstance(step, StepProgram))
    balance = balance_of(worker.device_name, experiment.spec.workload.precision.value, known)
    print(balance.source)
    seconds = {"projection": worker.seconds[batch] / balance.total(known) * balance.total(target)}
    if "half" not in balance.source:
        seconds["shapes"] = balance.total(target)
    model = source.workload.wire().get("model")
    measured_ms, least_ms = worker.seconds[batch] * 1e3, balance.total(known) * 1e3
    print(f"measured: {model}, {batch}: {measured_ms:.2f} ms, roofline {least_ms:.2f} ms")
    point = trial.point
    for rule, step_s in seconds.items():
        predicted = PredictedPoint(
            point=point.name,
            series=point.series,
            workers=1,
            nodes=1,
            step_s=step_s,
            throughput=(point.batch_per_worker or 0) / step_s,
        )
        digests = {bundle.label: bundle.ledger.digest if bundle.ledger else ""}
        prediction = RecordedPrediction(
            model=rule, experiment=experiment.metadata.name, version=release(), measured=digests, points=[predicted]
        )
        name = record_prediction(arguments.record, experiment, text, prediction)
        print(f"{rule}: {experiment.spec.workload.model}: {step_s * 1e3:.2f} ms ({name})")


if __name__ == "__main__":
    main()
