"""Know every kind of generated file: what it is generated from, what it must hold, and whether it does.

    python -m tools.generated                      # name the files that are stale; exit 1 if there are any
    python -m tools.generated --write [KIND...]    # write those, of all kinds or of these

`make check` and `make fix` call it. A kind whose writer needs a binary that is not built is named as skipped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalecurve_api.crds import generate, reference
from tests.api import trial_defaults, wording
from tests.chart import rendering
from tests.operator.runners import runner_cases
from tools.chart import base, job_rules, readme
from tools.devcluster import toolchain
from tools.docs import features, frames

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class GeneratedFiles:
    """A kind of generated file."""

    kind: str
    source: str
    """What a person edits instead."""
    patterns: tuple[str, ...]
    """Globs from the root; whatever else matches them is a leftover."""
    texts: Callable[[], Mapping[Path, str]]
    """Each file's path and what it must hold."""
    needs: tuple[str, ...] = ()
    """Upstreams of `tools.devcluster.toolchain` without which there are no texts."""

    def stale(self) -> dict[Path, str | None]:
        """The files that differ, with what they must hold; None for one that must not exist."""
        texts = self.texts()
        existing = {path for pattern in self.patterns for path in ROOT.glob(pattern)}
        changed = {path: text for path, text in texts.items() if _read(path) != text}
        return {**changed, **dict.fromkeys(sorted(existing - texts.keys()))}


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _crds() -> dict[Path, str]:
    folder = ROOT / "charts/scalecurve/files/crds"
    return {folder / name: text for name, text in generate.files().items()}


def _golden_jobs() -> dict[Path, str]:
    folder = ROOT / "tests/operator/runners/golden"
    return {folder / f"{case}.yaml": runner_cases.spelled(case) for case in runner_cases.CASES}


def _golden_templates() -> dict[Path, str]:
    return {rendering.GOLDEN / f"{case}.yaml": rendering.golden(case) for case in rendering.CASES}


KINDS = (
    GeneratedFiles("crds", "api/scalecurve_api", ("charts/scalecurve/files/crds/scalecurve.dev_*",), _crds),
    GeneratedFiles(
        "experiment-reference",
        "api/scalecurve_api",
        ("docs/reference/experiment.md",),
        lambda: {ROOT / "docs/reference/experiment.md": reference.page()},
    ),
    GeneratedFiles(
        "frames-reference",
        "analysis/scalecurve/curves/frames.py",
        ("docs/reference/frames.md",),
        lambda: {frames.PATH: frames.text()},
    ),
    GeneratedFiles(
        "features-reference",
        "api/scalecurve_api/features",
        ("docs/reference/features.md",),
        lambda: {features.PATH: features.text()},
    ),
    GeneratedFiles(
        "trial-defaults",
        "api/scalecurve_api/spec",
        ("tests/api/trial_defaults.json",),
        lambda: {trial_defaults.PATH: trial_defaults.text()},
    ),
    GeneratedFiles("wording", "api/scalecurve_api", ("tests/api/wording.txt",), lambda: {wording.PATH: wording.text()}),
    GeneratedFiles(
        "job-rules",
        "api/scalecurve_api/spec/job_kinds.py",
        ("charts/scalecurve/files/job-rules.yaml",),
        lambda: {job_rules.PATH: job_rules.text()},
    ),
    GeneratedFiles(
        "chart-readme",
        "charts/scalecurve/values.yaml",
        ("charts/scalecurve/README.md",),
        lambda: {readme.README: readme.text()},
    ),
    GeneratedFiles(
        "golden-jobs",
        "tests/operator/runners/runner_cases.py and the operator's runners",
        ("tests/operator/runners/golden/*",),
        _golden_jobs,
    ),
    GeneratedFiles(
        "golden-templates", "charts/scalecurve", ("tests/chart/golden/*",), _golden_templates, needs=("helm",)
    ),
    GeneratedFiles(
        "kustomize-base",
        "charts/scalecurve",
        ("manifests/base/operator.yaml",),
        lambda: {base.OUTPUT: base.text(rendering.helm())},
        needs=("helm",),
    ),
)
ELSEWHERE = {
    "analysis/scalecurve_models/laws/data/pooled_prior.json": "python -m benchmarks.prediction --write (a minute)",
    "constraints*.txt": "make lock (network)",
    "docs/prediction.md": "python -m benchmarks.prediction --write (a minute)",
    "locks/*.txt": "make lock (network)",
    "tests/operator/runners/seen/*.json": "python -m tests.operator.runners.capture (a control plane)",
}
"""Other generated files, which cost more than a moment → what writes them."""


def writable(kinds: Sequence[GeneratedFiles]) -> Iterator[GeneratedFiles]:
    """Those whose binaries are built; says which are skipped."""
    for files in kinds:
        if missing := toolchain.missing(files.needs):
            print(f"skipped: {files.kind} ({', '.join(missing)} is not built: `make cluster-tools`)")
        else:
            yield files


def write(kinds: Sequence[GeneratedFiles]) -> int:
    """Write what is stale, and name it."""
    for files in writable(kinds):
        for path, text in files.stale().items():
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            print(f"{'removed' if text is None else 'written'}: {path.relative_to(ROOT)} ({files.kind})")
    return 0


def check(kinds: Sequence[GeneratedFiles]) -> int:
    """Name what is stale; return 1 if something is."""
    status = 0
    for files in writable(kinds):
        try:
            stale = files.stale()
        except (subprocess.CalledProcessError, ValueError) as error:
            output = getattr(error, "stderr", "") or str(error)
            print(f"{files.kind}: cannot be generated from {files.source}: {output.strip()}")
            status = 1
            continue
        for path, text in stale.items():
            fault = "not generated any more" if text is None else f"not what {files.source} gives"
            print(f"{path.relative_to(ROOT)}: {fault}; `make fix` repairs it")
            status = 1
    return status


def main(arguments: Sequence[str]) -> int:
    """Check all kinds, or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", nargs="*", metavar="KIND", choices=[files.kind for files in KINDS])
    chosen = parser.parse_args(arguments).write
    if chosen is None:
        return check(KINDS)
    return write([files for files in KINDS if not chosen or files.kind in chosen])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
