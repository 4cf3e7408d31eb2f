"""One command from a clone to a report out of real pods on two nodes, on this machine.

    python tests/nodes/quickstart.py [EXPERIMENT.yaml] [--into FOLDER] [--keep]

Builds what is not built yet, brings the cluster up, installs the operator with Helm, applies the experiment, follows
it, pulls its records, writes the report, and takes the cluster down. Prints what each stage took, and where a trial's
time went.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tools.devcluster import ROOT, toolchain
from tools.devcluster.nodes import latency, machine
from tools.devcluster.nodes.cluster import state
from tools.devcluster.nodes.existing import ExistingCluster
from tools.devcluster.nodes.installed import Installed, restricted_namespace
from tools.devcluster.nodes.moments import Moments
from tools.devcluster.nodes.pod_experiments import image_of
from tools.devcluster.nodes.stages import Stages
from tools.images import build as images

_STANDING = (sys.executable, "-m", "tools.devcluster.nodes.standing")
EXPERIMENT = ROOT / "manifests" / "experiments" / "two-nodes.yaml"
NAMESPACE = "bench"
_TOOLS = ("etcd", "k8s", "mpi-operator", "training-operator", "helm", *machine.UPSTREAMS)
_SCALECURVE = Path(sys.executable).with_name("scalecurve")


class StageError(RuntimeError):
    """A stage that did not come to its end; what went wrong is above."""


def main() -> int:
    """0 when every trial succeeded, 1 when one did not, 3 where no nodes can run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", type=Path, default=EXPERIMENT, help="default: %(default)s")
    parser.add_argument("--into", type=Path, help="folder of the bundle; default: results/NAME-TIME")
    parser.add_argument("--keep", action="store_true", help="leave the cluster and the operator running")
    chosen = parser.parse_args()
    tree = yaml.safe_load(chosen.experiment.read_text())
    # Every run is another experiment, which wants another folder.
    into = (chosen.into or Path("results") / f"{tree['metadata']['name']}-{time.strftime('%m%d-%H%M%S')}").absolute()
    stages = Stages(lambda: [int(held["pid"])] if (held := machine.held_by()) else [])
    try:
        return run(chosen.experiment, tree, into, chosen.keep, stages)
    except (StageError, images.BuildError, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 3
    finally:
        print(stages.table())


def run(file: Path, tree: dict[str, Any], into: Path, keep: bool, stages: Stages) -> int:
    """All stages in turn."""
    with stages("tools"):
        machine.install()
        toolchain.build(_TOOLS)
    if why := machine.lacking():
        raise StageError(why)
    with stages("images"):
        names = ["operator", image_of(tree["spec"]["workload"])]
        archives = images.build(names, images.choose_base(images.AUTO, names, images.TAG, {}))
    try:
        with stages("cluster"):
            _run(*_STANDING, "up", *archives.values())
        os.environ["KUBECONFIG"] = str(state() / "tier" / "admin.kubeconfig")
        with ExistingCluster() as cluster:
            with stages("operator"):
                if not _installed(cluster):
                    Installed(cluster).start()
            return measure(cluster, file, tree, into, stages)
    finally:
        if keep:
            print(f"the cluster keeps running until `make cluster-down`\nexport KUBECONFIG={os.environ['KUBECONFIG']}")
        else:
            with stages("down"):
                _run(*_STANDING, "down")


def measure(cluster: ExistingCluster, file: Path, tree: dict[str, Any], into: Path, stages: Stages) -> int:
    """The experiment in the namespace `bench`, from `kubectl apply` to the report."""
    name = tree["metadata"]["name"]
    where = ["-n", NAMESPACE]
    restricted_namespace(cluster, NAMESPACE)
    with Moments(cluster.rest) as moments:
        time.sleep(1)  # until the watches are there
        with stages("experiment"):
            applied_at = time.time()
            cluster.kubectl("apply", *where, "-f", str(file))
            ended = subprocess.run([_SCALECURVE, "watch", name, *where], check=False).returncode
    with stages("report"):
        _run(_SCALECURVE, "report", name, *where, "--into", into)
    rows = latency.breakdown(moments, NAMESPACE, name, into, applied_at)
    if rows:
        print(latency.table(rows))
        print(f"the operator's own share of a trial: {latency.summary(rows)['operatorMedian']:.2f} s (median)")
        (into / "cluster.json").write_text(json.dumps({"trials": rows, "summary": latency.summary(rows)}, indent=1))
    return ended


def _installed(cluster: ExistingCluster) -> bool:
    return "scalecurve" in cluster.kubectl("get", "deployments", "-A", "-o", "name")


def _run(*command: str | Path) -> None:
    if subprocess.run([str(part) for part in command], check=False).returncode:
        raise StageError(f"{' '.join(map(str, command[:3]))} did not succeed")


if __name__ == "__main__":
    sys.exit(main())
