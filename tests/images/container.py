"""A container of a built image, without a runtime: buildah runs commands in it, with chroot isolation."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from tools.images import build


class Container:
    """A working container of an archive, gone at the end of the context. No capability is left to its processes."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive

    def __enter__(self) -> Container:
        self._name = self._buildah("from", f"oci-archive:{self.archive}").stdout.strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._buildah("rm", self._name)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The end of a shell script that the image's own user runs."""
        given = [f"--env={key}={value}" for key, value in environment.items()]
        return self._buildah(
            "run", "--isolation=chroot", "--cap-drop=all", *given, self._name, "--", "sh", "-c", script, check=False
        )

    def says(self, script: str, **environment: str) -> str:
        """What a script that succeeds prints."""
        done = self.run(script, **environment)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    @property
    def configuration(self) -> dict[str, Any]:
        """The image's configuration, out of its archive."""
        with tarfile.open(self.archive) as archive:

            def blob(name: str) -> Any:
                found = archive.extractfile(name)
                assert found is not None
                return json.loads(found.read())

            (entry,) = blob("index.json")["manifests"]
            manifest = blob(f"blobs/sha256/{entry['digest'][7:]}")
            found: dict[str, Any] = blob(f"blobs/sha256/{manifest['config']['digest'][7:]}")
        return found

    def _buildah(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(build.buildah(*arguments), capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done
