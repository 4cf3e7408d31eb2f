"""The user's own way to packages, handed to a build without a trace in the image.

pip inside a build obeys what pip outside obeys: index, proxies' certificates, trusted hosts. All of it goes in as
build secrets, which are mounted while an instruction runs and are part of no layer and of no history.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

_HANDED_ON = (
    "index-url",
    "extra-index-url",
    "trusted-host",
    "find-links",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
)
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CERTIFICATES = "/run/secrets/certificates"
"""Where the Containerfiles mount them."""


def secrets(folder: Path, index: str = "") -> list[str]:
    """Write the secrets into ``folder``; the arguments of ``buildah bud``."""
    said = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    settings = configured(said)
    bundle = next((path for path in (settings.pop("cert", ""), *_BUNDLES) if path and Path(path).is_file()), "")
    if index:
        settings["index-url"] = index
    found = []
    if bundle:
        settings["cert"] = CERTIFICATES
        found += ["--secret", f"id=certificates,src={bundle}"]
    configuration = folder / "pip.conf"
    configuration.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items())))
    return ["--secret", f"id=pip,src={configuration}", *found]


def configured(said: str) -> dict[str, str]:
    """What ``pip config list`` says that matters inside a build; later lines win, and variables come over files.

    Folders of this machine are left out: a build does not see them.
    """
    lines = [line.partition("=") for line in said.splitlines() if "=" in line]
    ranked = sorted(lines, key=lambda line: (line[0].startswith(":env:"), line[0].startswith("install.")))
    found = {}
    for name, _, value in ranked:
        key = name.rpartition(".")[2].strip()
        text = str(ast.literal_eval(value))
        if key == "cert":
            found[key] = text
        elif key in _HANDED_ON and not (key == "find-links" and "://" not in text):
            # Several of them are separated by any white space; a line break would end the setting.
            found["timeout" if key == "default-timeout" else key] = " ".join(text.split())
    return found
