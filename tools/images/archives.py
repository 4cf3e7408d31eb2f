"""The images of `images/docker-bake.json`, and where the archive of each is."""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TAG = "dev"


def targets() -> dict[str, dict[str, Any]]:
    """Images that can be built: name → target of the bake file."""
    return dict(json.loads((ROOT / "images" / "docker-bake.json").read_text())["target"])


def reference(name: str, tag: str = TAG) -> str:
    """What an image is called inside its archive, and so in a node that imports it."""
    return f"localhost/scalecurve/{name}:{tag}"


def cache() -> Path:
    """The folder of all images: in ``$SCALECURVE_CACHE``, or in ``~/.cache/scalecurve``."""
    return Path(os.environ.get("SCALECURVE_CACHE") or Path.home() / ".cache" / "scalecurve") / "images"


def path(name: str, tag: str = TAG) -> Path:
    """Where the OCI archive of an image is, if it has been built."""
    return cache() / tag / f"{name}.tar"


def built(name: str, tag: str = TAG) -> Path | None:
    """The archive of an image, if it was built from the sources as they are now."""
    return path(name, tag) if record(name, tag).get("sources") == sources(name) else None


def record(name: str, tag: str) -> dict[str, str]:
    """What stands beside an archive: the ``id`` of its image, and the digest of its ``sources``."""
    file = path(name, tag).with_suffix(".json")
    return dict(json.loads(file.read_text())) if file.exists() else {}


def sources(name: str) -> str:
    """The digest of an image's Containerfile and of all that it copies."""
    digest = hashlib.sha256((containerfile := ROOT / targets()[name]["dockerfile"]).read_bytes())
    for words in re.findall(r"^COPY (?!--)(.+) \S+$", containerfile.read_text(), re.MULTILINE):
        for source in (ROOT / word for word in words.split()):
            for file in (each for each in (source, *sorted(source.rglob("*"))) if each.is_file()):
                if file.suffix != ".pyc":
                    digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()
