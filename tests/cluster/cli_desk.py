"""The command with a kubeconfig and a namespace, in this process or in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalecurve.cli import main
from tools.devcluster.tier import Tier

SCALECURVE = Path(sys.executable).with_name("scalecurve")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    """A folder to work in."""

    def __init__(self, tier: Tier, folder: Path, namespace: str) -> None:
        self.folder, self.namespace = folder, namespace
        self.where = ["--kubeconfig", str(tier.kubeconfig), "-n", namespace]

    def __call__(self, *words: str | Path, code: int = 0) -> Ran:
        """A verb of the cluster."""
        return self.local(*words, *self.where, code=code)

    def local(self, *words: str | Path, code: int = 0) -> Ran:
        """A verb that needs none."""
        out, err = io.StringIO(), io.StringIO()
        ended: Any = 0
        with redirect_stdout(out), redirect_stderr(err), chdir(self.folder):
            try:
                main([*map(str, words)])
            except SystemExit as stop:
                ended = stop.code or 0
        assert ended == code, f"{ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Ran(ended, out.getvalue(), err.getvalue())

    def begin(self, *words: str, environment: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        environment = {**os.environ, **(environment or {})}
        command = [str(SCALECURVE), *words, *self.where]
        return subprocess.Popen(command, cwd=self.folder, text=True, env=environment, **settings)
