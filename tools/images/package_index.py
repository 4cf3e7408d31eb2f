"""The user's own way to packages, handed to a build without a trace in the image.

pip inside a build follows the settings of pip outside: index, certificates, trusted hosts. They go in as build secrets,
which are mounted while an instruction runs and are part of no layer and of no history.
"""

import ast
import subprocess
import sys
from pathlib import Path

_PASSED_ON = ("cert", "extra-index-url", "find-links", "index-url", "proxy", "retries", "timeout", "trusted-host")
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CERTIFICATES = "/run/secrets/certificates"  # where the Containerfiles mount them


def secrets(folder: Path, index: str = "") -> list[str]:
    """Write the secrets into ``folder``; the arguments of ``buildah bud``."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    settings = configured(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    bundle = next((path for path in (settings.pop("cert", ""), *_BUNDLES) if path and Path(path).is_file()), "")
    settings |= {"index-url": index} if index else {}
    settings |= {"cert": CERTIFICATES} if bundle else {}
    configuration = folder / "pip.conf"
    configuration.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(settings.items())))
    certificates = [f"--secret=id=certificates,src={bundle}"] if bundle else []
    return [f"--secret=id=pip,src={configuration}", *certificates]


def configured(listing: str) -> dict[str, str]:
    """What ``pip config list`` prints that matters inside a build; variables win over files.

    Folders of this machine are left out: a build does not see them. Several values are separated by white space.
    """
    lines = [line.partition("=") for line in listing.splitlines() if "=" in line]
    settings = {}
    for name, _, value in sorted(lines, key=lambda line: (line[0].startswith(":env:"), line[0].startswith("install."))):
        key, text = name.rpartition(".")[2].strip().removeprefix("default-"), str(ast.literal_eval(value))
        if key in _PASSED_ON and not (key == "find-links" and "://" not in text):
            settings[key] = " ".join(text.split())
    return settings
