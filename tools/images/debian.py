"""A base image where no registry can be reached: Debian 12 with its Python, made from packages by mmdebstrap.

Packages come from where this machine's own apt takes them, if it is of that release. The image names Debian's public
mirror.
"""

import hashlib
import subprocess
from pathlib import Path

SUITE = "bookworm"
PUBLIC = (
    f"deb http://deb.debian.org/debian {SUITE} main",
    f"deb http://deb.debian.org/debian {SUITE}-updates main",
    f"deb http://deb.debian.org/debian-security {SUITE}-security main",
)
PACKAGES = ("ca-certificates", "python3", "python3-venv")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")


def digest() -> str:
    """Of what such a base is made of."""
    return hashlib.sha256(repr((1, SUITE, PUBLIC, PACKAGES, _LEFT_OUT)).encode()).hexdigest()[:12]


def make(archive: Path) -> None:
    """Write the root file system as a tar. Raises CalledProcessError; mmdebstrap's output is on stderr."""
    public = "\\n".join(PUBLIC)
    command = [
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=apt"),
        f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        # Licences stay: who hands the image on has to hand them on.
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--customize-hook=rm -f "$1"/etc/apt/sources.list.d/*',
        f"""--customize-hook=printf '{public}\\n' >"$1/etc/apt/sources.list" """.strip(),
        *(SUITE, str(archive), *(own_sources() or PUBLIC)),
    ]
    subprocess.run(command, check=True)


def own_sources(apt: Path = Path("/etc/apt")) -> list[Path]:
    """This machine's own sources for the same release: its distribution's, not other vendors'."""
    suites = {SUITE, f"{SUITE}-updates", f"{SUITE}-security"}
    words = {
        path: set(path.read_text().split())
        for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]
        if path.suffix in (".list", ".sources") and path.is_file()
    }
    found = [path for path, inside in words.items() if "main" in inside and inside & suites]
    return found if any(SUITE in words[path] for path in found) else []
