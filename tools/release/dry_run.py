"""Try a release without publishing it: ``python -m tools.release.dry_run``, which is ``make release-dry-run``.

Builds what a release publishes into dist/ (see dist.py) and the images' archives into dist/images/, each with its
SHA256SUMS. Then the wheel, in a fresh virtual environment, runs ``scalecurve quickstart``; and the chart's package is
installed in a fresh control plane, where the operator from the wheel runs an experiment on simulated pods.
"""

import argparse
import http.client
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.devcluster import toolchain
from tools.devcluster.components import Component
from tools.devcluster.ports import Ports
from tools.devcluster.tier import Tier, lacking
from tools.devcluster.waiting import wait_until
from tools.images import build as images
from tools.release import dist
from tools.release.dist import DIST, ROOT, run

NAMESPACE = "scalecurve-system"
PACKAGES = (
    "scalecurve_api",
    "scalecurve_kube",
    "scalecurve_operator",
    "scalecurve_worker",
    "scalecurve_local",
    "scalecurve",
    "scalecurve_models",
    "scalecurve_corpus",
    "scalecurve_importing",
    "scalecurve_timelines",
)
_SMALL_IMAGES = ("operator", "worker-mpi")
_EXPERIMENT: dict[str, Any] = {
    "apiVersion": "scalecurve.dev/v1alpha1",
    "kind": "ScalingExperiment",
    "metadata": {"name": "release", "namespace": "team"},
    "spec": {
        "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 8}},
        "placement": {"workersPerNode": 1},
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "measure": {"warmupSteps": 2, "windows": 2, "stepsPerWindow": 3, "repetitions": 1},
        "workload": {"program": "torch", "image": "played", "env": {"PLAY": "succeed", "PLAY_SECONDS": "0"}},
        "runner": "Job",
    },
}


def archives(names: Sequence[str]) -> str:
    """Build the images, and copy their archives into dist/images."""
    if reason := images.lacking():
        return f"skipped: {reason}"
    folder = DIST / "images"
    folder.mkdir()
    for archive in images.build(names, tag=dist.version()).values():
        shutil.copy2(archive, folder)
    dist.digests(folder)
    return ", ".join(names)


def quickstart(python: Path) -> str:
    """Run the installed command as a user would; the folder of its report."""
    missing = [name for name in PACKAGES if run(python, "-c", _IS_INSTALLED, name).strip() != "True"]
    if missing:
        raise SystemExit(f"not in the wheel: {', '.join(missing)}")
    print(run(python.with_name("scalecurve"), "--version"), end="")
    with tempfile.TemporaryDirectory(prefix="scalecurve-quickstart-") as results:
        output = run(python.with_name("scalecurve"), "quickstart", "--quiet", "--into", results)
        reports = list(Path(results).rglob("report.html"))
    if not reports:
        raise SystemExit(f"quickstart wrote no report:\n{output}")
    return "wrote its report"


_IS_INSTALLED = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]) is not None)"


def lend_torch(python: Path) -> str:
    """Give an environment torch: this interpreter's, behind everything of its own, or else the pinned build."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", "locks/torch.txt")
        return "torch as pinned"
    folder = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (folder / "lent-torch.pth").write_text(f"{Path(found.origin).parents[1]}\n", encoding="utf-8")
    return "torch of this interpreter"


def install_chart(python: Path) -> str:
    """Install the packaged chart in a new control plane; run the wheel's operator with its settings and rights."""
    if why := lacking(operators=()):
        return f"skipped: {why}"
    package, ports = DIST / f"scalecurve-{dist.version()}.tgz", Ports()
    health, metrics = ports.take(), ports.take()
    with Tier(operators=(), crds=()) as tier:
        tier.add_nodes(2)
        tier.namespace(NAMESPACE)
        tier.namespace("team")
        chosen = ("--set", f"ports.health={health}", "--set", f"ports.metrics={metrics}", "--set", "namespaces={team}")
        run(
            toolchain.binary("helm"), "install", "scalecurve", package, "-n", NAMESPACE, *chosen,
            KUBECONFIG=str(tier.kubeconfig),
        )  # fmt: skip
        operator = _operator(tier, python, health)
        try:
            operator.start()
            operator.wait(60)
            tier.kubectl("apply", "-f", "-", text=json.dumps(_EXPERIMENT))
            wait_until(lambda: _phase(tier) == "Succeeded", "the experiment has succeeded", 60)
        except BaseException as error:
            error.add_note(operator.last_lines(40))
            raise
        finally:
            operator.kill()
            ports.release()
        run(toolchain.binary("helm"), "uninstall", "scalecurve", "-n", NAMESPACE, KUBECONFIG=str(tier.kubeconfig))
    return "installed; the operator ran an experiment of two trials"


def _operator(tier: Tier, python: Path, health: int) -> Component:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    pod = tier.rest.call("GET", path)["items"][0]["spec"]["template"]["spec"]
    variables = {variable["name"]: variable.get("value", "") for variable in pod["containers"][0]["env"]}
    variables |= {"POD_NAME": "scalecurve-0", "KUBERNETES_SERVICE_HOST": "", "PYTHONPATH": ""}
    variables["KUBECONFIG"] = str(tier.user(f"system:serviceaccount:{NAMESPACE}:{pod['serviceAccountName']}"))
    command: list[str | Path] = [python, "-m", "scalecurve_operator"]
    return Component("the operator", command, tier.logs / "operator.log", lambda: _ready(health), variables)


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _phase(tier: Tier) -> str:
    return tier.kubectl("get", "scalingexperiment", "release", "-n", "team", "-o", "jsonpath={.status.phase}")


def _stage(name: str, action: Callable[[], object]) -> None:
    began = time.monotonic()
    print(f"== {name}", flush=True)
    outcome = action()
    print(f"== {name}: {outcome or 'done'} ({time.monotonic() - began:.0f} s)", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if everything that could be tried here passed; what could not is printed."""
    parser = argparse.ArgumentParser(prog="tools.release.dry_run", description="Try a release without publishing it.")
    parser.add_argument("--images", nargs="*", default=_SMALL_IMAGES, help="images to build (default: the small ones)")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    _stage("artifacts", dist.main)
    if options.images:
        _stage("images", lambda: archives(options.images))
    with tempfile.TemporaryDirectory(prefix="scalecurve-release-") as folder:
        python = dist.environment(Path(folder) / "venv")
        install = ("-m", "pip", "install", "--quiet", "-c", "constraints.txt", f"{dist.wheel()}[operator]")
        _stage("wheel in a fresh environment", lambda: run(python, *install))
        _stage("chart in a fresh control plane", lambda: install_chart(python))
        _stage("torch", lambda: lend_torch(python))
        _stage("quickstart", lambda: quickstart(python))
    return 0


if __name__ == "__main__":
    sys.exit(main())
