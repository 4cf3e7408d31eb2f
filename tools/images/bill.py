"""The bill of materials of an image: CycloneDX JSON, of its Python packages and of its Debian packages.

Python packages are found by cyclonedx-py, which reads an environment's metadata; it is told the import path of the
image's interpreter under the folder where the image is mounted, and runs nothing of it. Debian packages are those of
dpkg's own list, named by package URLs of type ``deb``.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

REQUIREMENTS = Path(__file__).resolve().parents[2] / "locks" / "bill.txt"
_IMPORTED_FROM = ("opt/scalecurve/lib/python3*/site-packages", "opt/scalecurve/code")


def write(root: Path, image: str, path: Path, tools: Path) -> None:
    """Write the bill of the image that is mounted at ``root``.

    ``tools`` is a folder for cyclonedx-py, which is installed there when it is missing.

    Raises:
        subprocess.CalledProcessError: cyclonedx-py cannot be installed, or failed; it has said why.
    """
    bill = _python_packages(root, tools)
    debian = list(debian_packages(root))
    bill["components"] += debian
    bill["metadata"]["component"] = {"type": "container", "bom-ref": "image", "name": image}
    bill["dependencies"] += [{"ref": each["bom-ref"]} for each in debian]
    bill["dependencies"].append({"ref": "image", "dependsOn": sorted(each["bom-ref"] for each in bill["components"])})
    path.write_text(json.dumps(bill, indent=1) + "\n")


def _python_packages(root: Path, tools: Path) -> dict[str, Any]:
    program = tools / "bin" / "cyclonedx-py"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
        pip = [str(tools / "bin" / "pip"), "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
    folders = [str(each) for pattern in _IMPORTED_FROM for each in sorted(root.glob(pattern))]
    with tempfile.TemporaryDirectory() as folder:
        # cyclonedx-py asks an interpreter for its import path: this one answers for the image's.
        interpreter = Path(folder) / "python"
        interpreter.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(folders)}\nEND\n")
        interpreter.chmod(0o755)
        command = [str(program), "environment", "--output-reproducible", str(interpreter)]
        packages = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return {"components": [], "dependencies": [], **json.loads(packages)}


def debian_packages(root: Path) -> Iterator[dict[str, str]]:
    """Components for what dpkg lists as installed, in its order."""
    lines = (root / "etc/os-release").read_text().splitlines()
    release = dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
    name, version = release.get("ID", "debian"), release.get("VERSION_ID", "")
    for part in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line and not line[0].isspace())
        if fields.get("Status", "").endswith(" installed"):
            where = f"arch={fields['Architecture']}&distro={name}-{version}"
            url = f"pkg:deb/{name}/{quote(fields['Package'])}@{quote(fields['Version'], safe='')}?{where}"
            named = {"name": fields["Package"], "version": fields["Version"], "purl": url}
            yield {"type": "library", "bom-ref": url, **named}
