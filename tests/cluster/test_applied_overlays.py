"""What `scalecurve validate --overlay ... --output yaml | kubectl apply -f -` brings to an API server."""

import subprocess
import sys
from pathlib import Path

import pytest

from scalecurve.checks.validation import validate
from scalecurve_api.spec.experiment import ScalingExperiment
from tools.devcluster.tier import Tier

STUDIES = Path(__file__).parents[2] / "manifests" / "studies"
SCALECURVE = Path(sys.executable).with_name("scalecurve")


@pytest.mark.parametrize("overlay", sorted(STUDIES.glob("*/small.yaml")), ids=lambda path: path.parent.name)
def test_a_merged_experiment_is_stored_as_it_was_meant(tier: Tier, namespace: str, overlay: Path) -> None:
    full = overlay.with_name("experiment.yaml")
    ((meant,),) = (checked.experiments for checked in validate([full], [overlay]))
    printed = subprocess.run(
        [SCALECURVE, "validate", full, "--overlay", overlay, "--output", "yaml"], capture_output=True, check=True
    ).stdout
    path = f"/apis/scalecurve.dev/v1alpha1/namespaces/{namespace}/scalingexperiments/{meant.metadata.name}"
    tier.rest.apply(path, printed)
    stored = tier.rest.call("GET", path)
    identity = {name: stored[name] for name in ("apiVersion", "kind")} | {"metadata": {"name": meant.metadata.name}}
    assert ScalingExperiment.model_validate({**identity, "spec": stored["spec"]}) == meant
