"""The chart as helm renders it."""

from __future__ import annotations

import subprocess
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.chart import base
from tools.devcluster import toolchain

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

CHART = base.CHART
GOLDEN = HERE / "golden"
CASES: dict[str, tuple[str, ...]] = {
    "default": (),
    "namespaced": ("-f", str(HERE / "values" / "namespaced.yaml")),
    "whole-cluster": ("-f", str(HERE / "values" / "whole-cluster.yaml")),
    "everything": ("-f", str(HERE / "values" / "everything.yaml")),
}
MONITORING = "monitoring.coreos.com"


def helm() -> Path:
    return toolchain.binary("helm")


def lacking(*names: str) -> str | None:
    """Why these binaries cannot be run here, in one line; None where they can."""
    missing = toolchain.missing(names)
    return f"not built: {', '.join(missing)}; `make cluster-tools` builds them" if missing else None


def objects(*arguments: str) -> list[dict[str, Any]]:
    """A copy of what helm renders once for the same arguments."""
    return deepcopy(_rendered(*arguments))


@cache
def _rendered(*arguments: str) -> list[dict[str, Any]]:
    return base.render(helm(), *arguments)


def named(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in found if each["kind"] == kind]


def refusal(*arguments: str) -> str:
    """What helm says against it."""
    command = [str(helm()), "template", "scalecurve", str(CHART), "--kube-version", base.KUBERNETES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "helm took it"
    return done.stderr


def golden(case: str) -> str:
    """The templates of a case as text, without the CRDs, which have a test of their own."""
    parts = base.template(helm(), *CASES[case]).split("---\n")
    return "---\n" + "---\n".join(
        part for part in parts if part.strip() and "scalecurve/templates/crds.yaml" not in part
    )


def load(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
