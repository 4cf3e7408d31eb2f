"""pip's settings of this machine as build secrets: they are there while an instruction runs, and in no layer."""

import ast
import subprocess
import sys
from pathlib import Path

_USED = ("cert", "extra-index-url", "find-links", "index-url", "proxy", "retries", "timeout", "trusted-host")
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def secrets(folder: Path) -> list[str]:
    """Write them into ``folder``; the arguments of ``buildah bud``."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = configured(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    bundles = [path for path in (settings.pop("cert", ""), *_BUNDLES) if Path(path).is_file()]
    settings |= {"cert": "/run/secrets/certificates"} if bundles else {}
    file = folder / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
    return [f"--secret=id=pip,src={file}", *(f"--secret=id=certificates,src={path}" for path in bundles[:1])]


def configured(listing: str) -> dict[str, str]:
    """What of ``pip config list`` matters in a build, less this machine's folders; variables win over files."""
    lines = [line.partition("=") for line in listing.splitlines()]
    settings = {}
    for name, _, value in sorted(lines, key=lambda line: (line[0].startswith(":env:"), line[0].startswith("install."))):
        key, text = name.rpartition(".")[2].removeprefix("default-"), " ".join(ast.literal_eval(value).split())
        if key in _USED and (key != "find-links" or "://" in text):
            settings[key] = text
    return settings
