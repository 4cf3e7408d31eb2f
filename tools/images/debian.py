"""A base image where no registry can be reached: Debian 12 with its Python, made from packages by mmdebstrap.

Packages come from the mirror that this machine's own apt uses for that release, where it has one. The image itself
names Debian's public mirror.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

SUITE = "bookworm"
PUBLIC = tuple(
    f"deb http://deb.debian.org/{path} {suite} main"
    for path, suite in (
        ("debian", SUITE),
        ("debian", f"{SUITE}-updates"),
        ("debian-security", f"{SUITE}-security"),
    )
)
PACKAGES = ("ca-certificates", "python3", "python3-venv")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
APT = Path("/etc/apt")


def digest() -> str:
    """Of what such a base is made of."""
    return hashlib.sha256(repr((1, SUITE, PUBLIC, PACKAGES, _LEFT_OUT)).encode()).hexdigest()[:12]


def make(archive: Path) -> None:
    """Write the root file system as a tar.

    Raises:
        subprocess.CalledProcessError: mmdebstrap failed, and has said why.
    """
    sources = archive.with_suffix(".list")
    sources.write_text("\n".join(mirror()) + "\n")
    written = "\\n".join(PUBLIC)
    command = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=apt",
        f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        # Licences stay: who hands the image on has to hand them on.
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        '--customize-hook=rm -f "$1"/etc/apt/sources.list.d/*',
        f"""--customize-hook=printf '{written}\\n' >"$1/etc/apt/sources.list" """.strip(),
        SUITE,
        str(archive),
        str(sources),
    ]
    try:
        subprocess.run(command, check=True)
    finally:
        sources.unlink()


def mirror(apt: Path = APT) -> list[str]:
    """Lines of a sources.list for the release: this machine's own, or Debian's public mirror."""
    found = [line for path in _source_files(apt) for line in _lines(path)]
    return found if any(line.split()[2] == SUITE for line in found) else list(PUBLIC)


def _source_files(apt: Path) -> list[Path]:
    folder = apt / "sources.list.d"
    return [path for path in (apt / "sources.list", *sorted(folder.glob("*"))) if path.is_file()]


def _lines(path: Path) -> Iterator[str]:
    text = re.sub(r"(?m)^\s*#.*\n?", "", path.read_text())
    if path.suffix == ".sources":
        entries = [_deb822(part) for part in re.split(r"\n\s*\n", text)]
    else:
        entries = [_one_line(line) for line in text.splitlines()]
    for kinds, uris, suites, components in entries:
        if "deb" not in kinds or "main" not in components:
            continue
        for suite in suites:
            if suite.partition("-")[0] == SUITE and suite.partition("-")[2] in ("", "updates", "security"):
                yield from (f"deb {uri} {suite} main" for uri in uris)


def _deb822(part: str) -> tuple[list[str], list[str], list[str], list[str]]:
    fields: dict[str, str] = {}
    name = ""
    for line in part.splitlines():
        if line[:1].isspace():
            fields[name] = f"{fields.get(name, '')} {line}"
            continue
        name, _, value = line.partition(":")
        name = name.strip().lower()
        fields[name] = value
    if fields.get("enabled", "yes").strip().lower() == "no":
        return [], [], [], []
    return (
        fields.get("types", "").split(),
        fields.get("uris", "").split(),
        fields.get("suites", "").split(),
        fields.get("components", "").split(),
    )


def _one_line(line: str) -> tuple[list[str], list[str], list[str], list[str]]:
    words = re.sub(r"\[[^\]]*\]", "", line).partition("#")[0].split()
    if len(words) < 4:
        return [], [], [], []
    return [words[0]], [words[1]], [words[2]], words[3:]
