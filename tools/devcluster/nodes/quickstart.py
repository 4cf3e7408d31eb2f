"""One command from a clone to a report out of real pods on two nodes, on this machine: `make cluster-quickstart`.

    python -m tools.devcluster.nodes.quickstart [EXPERIMENT.yaml] [--keep]

Builds what is not built yet, brings the cluster up, installs the operator with Helm, applies the experiment, follows
it, pulls its records, reports into results/NAME-TIME, and takes the cluster down. Prints what each stage took.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools import apt
from tools.devcluster import ROOT, toolchain
from tools.devcluster.nodes import machine
from tools.devcluster.nodes.cluster import state
from tools.devcluster.nodes.existing import ExistingCluster
from tools.devcluster.nodes.installed import Installed, image_of, restricted_namespace
from tools.images.build import build as build_images

_STANDING = (sys.executable, "-m", "tools.devcluster.nodes.standing")
EXPERIMENT = ROOT / "manifests" / "experiments" / "two-nodes.yaml"
NAMESPACE = "bench"
_TOOLS = ("etcd", "k8s", "mpi-operator", "training-operator", "helm", *machine.UPSTREAMS)


class StageError(RuntimeError):
    """A stage that did not come to its end; what went wrong is above."""


def main() -> int:
    """0 when every trial succeeded, 1 when one did not, 3 where no nodes can run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", type=Path, default=EXPERIMENT, help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="leave the cluster and the operator running")
    chosen = parser.parse_args()
    try:
        return run(chosen.experiment, chosen.keep)
    except (StageError, apt.AptError, FileNotFoundError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 3


def run(file: Path, keep: bool) -> int:
    """All stages in turn."""
    tree = yaml.safe_load(file.read_text())
    with _stage("tools"):
        machine.install()
        toolchain.build(_TOOLS)
    if why := machine.lacking():
        raise StageError(why)
    with _stage("images"):
        names = ["operator", image_of(tree["spec"]["workload"])]
        archives = build_images(names)
    try:
        with _stage("cluster"):
            _run(*_STANDING, "up", *archives.values())
        os.environ["KUBECONFIG"] = str(state() / "tier" / "admin.kubeconfig")
        with ExistingCluster() as cluster:
            with _stage("operator"):
                if "scalecurve" not in cluster.kubectl("get", "deployments", "-A", "-o", "name"):
                    Installed(cluster).start()
            return measure(cluster, file, tree["metadata"]["name"])
    finally:
        if keep:
            print(f"the cluster keeps running until `make cluster-down`\nexport KUBECONFIG={os.environ['KUBECONFIG']}")
        else:
            with _stage("down"):
                _run(*_STANDING, "down")


def measure(cluster: ExistingCluster, file: Path, name: str) -> int:
    """The experiment in the namespace `bench`, from `kubectl apply` to the report."""
    scalecurve, where = Path(sys.executable).with_name("scalecurve"), ["-n", NAMESPACE]
    restricted_namespace(cluster, NAMESPACE)
    with _stage("experiment"):
        cluster.kubectl("apply", *where, "-f", str(file))
        ended = subprocess.run([scalecurve, "watch", name, *where], check=False).returncode
    with _stage("report"):
        # Every run is another experiment, which wants another folder.
        _run(scalecurve, "report", name, *where, "--into", Path("results", f"{name}-{time.strftime('%m%d-%H%M%S')}"))
    return ended


@contextlib.contextmanager
def _stage(name: str) -> Iterator[None]:
    started = time.monotonic()
    print(f"-- {name}", file=sys.stderr, flush=True)
    yield
    print(f"-- {name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def _run(*command: str | Path) -> None:
    if subprocess.run([str(part) for part in command], check=False).returncode:
        raise StageError(f"{' '.join(map(str, command[:3]))} did not succeed")


if __name__ == "__main__":
    sys.exit(main())
