"""Build images as OCI archives: ``python -m tools.images.build [NAME...]``, which is ``make images IMAGES="NAME..."``.

They are the targets of `images/docker-bake.json`, which ``docker buildx bake`` builds, too. buildah needs no daemon,
and with chroot isolation neither a container runtime nor a user namespace, only root. It keeps layers; an archive is
written again when the ID of its image has changed. Standard library only: this runs before anything is installed.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools import apt
from tools.images import archives, debian, pip_settings

DEBOOTSTRAP = "debootstrap"
_BUD = ("bud", "--isolation=chroot", "--network=host", "--layers", "--force-rm", "--format=oci")
_MANY = 200  # images in the storage, above which what former builds left goes: a megabyte or two of each


def build(
    names: Sequence[str], base: str = "", tag: str = archives.TAG, arguments: Sequence[str] = ()
) -> dict[str, Path]:
    """Build images, with build arguments ``KEY=VALUE``; name → archive.

    ``base`` is an image, or ``debootstrap`` for Debian 12. Without, it is what the Containerfiles name if that can be
    pulled, else Debian.

    Raises:
        apt.AptError: a program cannot be installed; see its output on stderr.
        subprocess.CalledProcessError: a build failed; see its output on stderr.
    """
    if not shutil.which("buildah"):
        apt.install(["buildah"])
    cache = archives.cache()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock, tempfile.TemporaryDirectory(prefix=".work-", dir=cache) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        work, base = Path(folder), base or _default_base(names[0])
        image = _debian(work) if base == DEBOOTSTRAP else base
        options = [*(f"--build-arg={each}" for each in (f"BASE={image}", *arguments)), *pip_settings.secrets(work)]
        options += debian.own_mirror(work) if base == DEBOOTSTRAP else []
        done = {name: _build(name, tag, options, work) for name in names}
        if len(_buildah("images", "--all", "--quiet").split()) > _MANY:
            _buildah("rmi", "--prune", check=False)
        return done


def _build(name: str, tag: str, options: Sequence[str], work: Path) -> Path:
    """Build one image, and write its archive if another image has come of it."""
    target, called, archive = archives.targets()[name], archives.reference(name, tag), archives.path(name, tag)
    before, after = archives.record(name, tag), {"sources": archives.sources(name)}
    print(f"building {called}", file=sys.stderr, flush=True)
    _buildah("tag", called, f"{called}-before", check=False)
    stage = [f"--target={target['target']}"] if "target" in target else []
    file, result = archives.ROOT / target["dockerfile"], work / "id"
    command = buildah(*_BUD, *options, *stage, f"--file={file}", f"--iidfile={result}", f"--tag={called}")
    subprocess.run([*command, str(archives.ROOT)], stdout=sys.stderr, check=True)
    after["id"] = result.read_text()
    if not archive.exists() or before.get("id") != after["id"]:
        _buildah("push", "--quiet", after["id"], f"oci-archive:{work / archive.name}:{called}")
        archive.parent.mkdir(exist_ok=True)
        (work / archive.name).rename(archive)
    _buildah("rmi", f"{called}-before", check=False)  # with its layers, if it is another image
    archive.with_suffix(".json").write_text(json.dumps(after) + "\n")
    return archive


def _default_base(name: str) -> str:
    """The public image that the Containerfile names if it can be had, else Debian."""
    text = (archives.ROOT / archives.targets()[name]["dockerfile"]).read_text()
    (public,) = re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE)
    return public if _buildah("pull", "--quiet", public, check=False) else DEBOOTSTRAP


def _debian(work: Path) -> str:
    image = archives.reference("debian", debian.digest())
    if not _buildah("images", "--quiet", image, check=False):
        debian.make(work / "root.tar")
        container = _buildah("from", "scratch")
        _buildah("add", "--quiet", container, str(work / "root.tar"), "/")
        _buildah("commit", "--quiet", "--rm", container, image)
    return image


def lacking() -> str:
    """Why no image can be built here; empty if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "building images needs root on Linux (buildah with chroot isolation)"
    tools = shutil.which("buildah") or shutil.which("apt-get")
    return "" if tools else "building images needs buildah, and there is no apt-get to install it with"


def buildah(*arguments: str) -> list[str]:
    """A command line of buildah on the storage of these images."""
    storage = archives.cache() / "storage"
    return ["buildah", f"--root={storage}", f"--runroot={storage}-run", "--storage-driver=overlay", *arguments]


def _buildah(*arguments: str, check: bool = True) -> str:
    errors = None if check else subprocess.DEVNULL
    done = subprocess.run(buildah(*arguments), stdout=subprocess.PIPE, stderr=errors, text=True, check=check)
    return done.stdout.strip()


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for a failed build, 2 for bad arguments, 3 where no image can be built."""
    parser = argparse.ArgumentParser(prog="tools.images.build", description="Build images as OCI archives.")
    add, names = parser.add_argument, list(archives.targets())
    add("names", nargs="*", choices=names, metavar="NAME", help=f"which (default: all): {', '.join(names)}")
    add("--base", default="", help="image to build on, or debootstrap (default: Python's)")
    add("--tag", default="", help=f"tag (default: {archives.TAG}, and one of its own for any build arguments)")
    add("--build-arg", action="append", default=[], metavar="KEY=VALUE", help="argument of a Containerfile")
    add("--clean", action="store_true", help="remove all images and layers instead")
    options = parser.parse_args(words)
    if options.clean:
        _buildah("rm", "--all", check=False)  # unmounts
        shutil.rmtree(archives.cache(), ignore_errors=True)
        return 0
    if reason := lacking():
        print(reason, file=sys.stderr)
        return 3
    digest = hashlib.sha256("\n".join(sorted(options.build_arg)).encode()).hexdigest()[:6]
    tag = options.tag or archives.TAG + (f"-{digest}" if options.build_arg else "")
    base = options.base or dict(each.partition("=")[::2] for each in options.build_arg).get("BASE", "")
    try:
        done = build(options.names or names, base, tag, options.build_arg)
    except (apt.AptError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    for name, archive in done.items():
        print(f"{archives.reference(name, tag)}\t{archive.stat().st_size / 1e6:,.0f} MB\t{archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
