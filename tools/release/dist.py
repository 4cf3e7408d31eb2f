"""Build what a release publishes, but for the images: ``python -m tools.release.dist``, which is ``make dist``.

Into dist/: the source distribution, the wheel built from it, the chart's package, a bill of materials of the installed
wheel (CycloneDX), and SHA256SUMS of them all.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.devcluster import toolchain

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
CHART = ROOT / "charts" / "scalecurve"
_LARGEST = 5_000_000
"""Bytes of the wheel or the source distribution; records or images that slipped in would be more."""


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def environment(folder: Path) -> Path:
    """A new virtual environment without anything; its interpreter."""
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def run(*command: str | Path, **variables: str) -> str:
    """Run a command from the repository's root, without this process's import path; its output."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def distributions(work: Path) -> None:
    """The source distribution, and the wheel built from it and from nothing else."""
    python = environment(work / "build")
    run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", "locks/build.txt")
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    run(python, "-m", "hatchling", "build", "--target", "sdist", "--directory", DIST, SOURCE_DATE_EPOCH=epoch)
    (source,) = DIST.glob("*.tar.gz")
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(python, "-m", "pip", "wheel", *offline, "--wheel-dir", DIST, source, SOURCE_DATE_EPOCH=epoch)
    for path in (source, *DIST.glob("*.whl")):
        if path.stat().st_size > _LARGEST:
            raise SystemExit(f"{path.name} has {path.stat().st_size} bytes, more than {_LARGEST}: what slipped in?")


def wheel() -> Path:
    """The wheel in dist/."""
    (path,) = DIST.glob("*.whl")
    return path


def bill(work: Path) -> None:
    """What the wheel brings along when it is installed without extras."""
    installed, tools = environment(work / "installed"), environment(work / "tools")
    run(installed, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", wheel())
    run(tools, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", "locks/bill.txt")
    output = DIST / f"scalecurve-{version()}.cdx.json"
    arguments = ("environment", "--output-reproducible", "--output-file", output, installed)
    run(tools.with_name("cyclonedx-py"), *arguments)


def digests(folder: Path) -> None:
    """Write SHA256SUMS of the files in a folder, as sha256sum checks them."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "SHA256SUMS":
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main() -> int:
    """Exit code 0; a step that fails ends it with its own output."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    toolchain.build(["helm"])
    with tempfile.TemporaryDirectory(prefix="scalecurve-dist-") as folder:
        distributions(Path(folder))
        run(toolchain.binary("helm"), "package", CHART, "--destination", DIST)
        bill(Path(folder))
    digests(DIST)
    print((DIST / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
