"""A base image where no registry can be reached: Debian 12 with its Python, made from packages by mmdebstrap.

Packages come from where this machine's own apt takes them, if it is of that release. The image names Debian's mirror.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tools import apt

SUITE = "bookworm"
_PARTS = (f"debian {SUITE}", f"debian {SUITE}-updates", f"debian-security {SUITE}-security")
_PUBLIC = "".join(f"deb http://deb.debian.org/{part} main\\n" for part in _PARTS)


def make(archive: Path) -> None:
    """Write the root file system as a tar. Raises CalledProcessError; mmdebstrap's output is on stderr."""
    if not shutil.which("mmdebstrap"):
        apt.install(["mmdebstrap"])
    command = [
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--include=ca-certificates,python3,python3-venv"),
        *('--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"'),
        *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("doc", "info", "lintian", "locale", "man")),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",  # who hands the image on has to hand licenses on
        '--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*',
        f"""--customize-hook=printf '{_PUBLIC}' >"$1"/etc/apt/sources.list.d/debian.list""",
    ]
    subprocess.run([*command, SUITE, str(archive), *own_sources()], check=True)


def digest() -> str:
    """Of what such a base is made of."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


def own_mirror(work: Path) -> list[str]:
    """This machine's sources in place of the public ones, while a build runs; arguments of ``buildah bud``."""
    folder = work / "sources.list.d"
    folder.mkdir()
    copies = [shutil.copy(path, folder) for path in own_sources()]
    return [f"--volume={folder}:/etc/apt/{folder.name}:ro"] if copies else []


def own_sources(apt: Path = Path("/etc/apt")) -> list[Path]:
    """This machine's own sources for the same release: its distribution's, not other vendors'."""
    suites = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
    paths = [path for path in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))) if path.is_file()]
    words = {path: set(path.read_text().split()) for path in paths if path.suffix in (".list", ".sources")}
    found = [path for path in words if "main" in words[path] and words[path] & suites]
    return found if any(SUITE in words[path] for path in found) else []
