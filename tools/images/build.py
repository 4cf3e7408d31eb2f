"""Build images into the cache: ``python -m tools.images.build [NAME...]``, which is ``make images IMAGES="NAME..."``.

buildah builds without a daemon, and with chroot isolation needs neither a container runtime nor a user namespace, only
root. Each result is an OCI archive in a folder named by the digest of all that goes in: a second build with nothing
changed does nothing. There is one archive for each name and tag; build arguments make a tag of their own. Layers are
kept in a storage of our own beside them. Standard library only: this runs before anything is installed.

The base is a public Python image; where its registry cannot be reached, or with ``--base debootstrap``, it is a
Debian 12 made of packages.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools import apt
from tools.images import bill, debian, package_index, recipe

DEBOOTSTRAP = "debootstrap"
AUTO = "auto"
TAG = "dev"
_PREFIX = "localhost/scalecurve"
_PROGRAMS = ("buildah", "mmdebstrap")
_BUD = ("bud", "--isolation=chroot", "--network=host", "--layers", "--force-rm", "--format=oci")
_PROBE_S = 5
# Images of a storage, above which those of no archive are removed: each build leaves some, of a megabyte or two.
_MANY = 200


class BuildError(RuntimeError):
    """A build that cannot be made here; the message says what is missing, or whose output to read."""


def cache() -> Path:
    """The folder of all images: in ``$SCALECURVE_CACHE``, or in ``~/.cache/scalecurve``."""
    return Path(os.environ.get("SCALECURVE_CACHE") or Path.home() / ".cache" / "scalecurve") / "images"


def reference(name: str, tag: str = TAG) -> str:
    """What the image is called inside its archive, and so in a node that imports it."""
    return f"{_PREFIX}/{name}:{tag}"


def tag_of(arguments: Mapping[str, str]) -> str:
    """The tag of an image whose user gave none: another for each set of build arguments, so that all can be kept."""
    digest = hashlib.sha256(json.dumps(sorted(arguments.items())).encode()).hexdigest()
    return f"{TAG}-{digest[:6]}" if arguments else TAG


def built(name: str, base: str = DEBOOTSTRAP, tag: str = TAG, arguments: Mapping[str, str] | None = None) -> Path:
    """The OCI archive of an image as the repository is now; it is complete if it exists.

    Raises:
        recipe.RecipeError: there is no such image.
    """
    digest = recipe.digest(recipe.read(name), _base_key(base), tag, arguments or {})
    return cache() / f"{name}-{digest}" / f"{name}.tar"


def lacking(base: str = DEBOOTSTRAP) -> str:
    """Why no image can be built here; empty if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "building images needs root on Linux (buildah with chroot isolation)"
    missing = _missing_programs(base)
    if missing and not shutil.which("apt-get"):
        return f"building images needs {', '.join(missing)}, and there is no apt-get to install it with"
    return ""


def build(
    names: Sequence[str], base: str = DEBOOTSTRAP, tag: str = TAG, index: str = "",
    arguments: Mapping[str, str] | None = None, if_quick: bool = False,
) -> dict[str, Path]:  # fmt: skip
    """Build what is not in the cache; name → archive.

    ``index`` is the package index, by default what pip is set up for; ``arguments`` are further build arguments. With
    ``if_quick`` an image is left out whose packages would have to be installed first.

    Raises:
        BuildError: it cannot be done here, or a build failed, whose output is on stderr.
        recipe.RecipeError: there is no image of one of the names.
    """
    archives = {}
    for name in names:
        with _locked():
            archive = built(name, base, tag, arguments)
            if not archive.exists():
                packages = recipe.digest(recipe.read(name), _base_key(base), tag, arguments or {}, code=False)
                if if_quick and all(packages != _facts(folder)["packages"] for folder in _earlier(name, tag)):
                    _say(f"{name}: skipped: its packages would have to be installed first")
                    continue
                _install_programs(base)
                _build(recipe.read(name), base, tag, index, arguments or {}, archive, packages)
        archives[name] = archive
    return archives


def _build(
    image: recipe.Recipe, base: str, tag: str, index: str, arguments: Mapping[str, str], archive: Path, packages: str
) -> None:
    name = reference(image.name, tag)
    with tempfile.TemporaryDirectory(prefix=f".{image.name}-", dir=cache()) as folder:
        work, result = Path(folder), Path(folder) / "result"
        result.mkdir(mode=0o755)
        given = {**arguments, "BASE": _base(base)}
        _say(f"building {name} on {given['BASE']}")
        _buildah(
            *_BUD,
            f"--ignorefile={recipe.IMAGES / 'containerignore'}",
            *(f"--build-arg={key}={value}" for key, value in given.items()),
            *package_index.secrets(work, index),
            *(_own_mirror(work) if base == DEBOOTSTRAP else []),
            f"--file={image.path}",
            *([f"--target={image.target}"] if image.target else []),
            f"--tag={name}",
            str(recipe.ROOT),
        )
        _write_bill(name, result / f"{image.name}.cdx.json")
        _buildah("push", "--quiet", name, f"oci-archive:{result / archive.name}:{name}")
        facts = {"image": name, "base": given["BASE"], "packages": packages}
        (result / "image.json").write_text(json.dumps(facts, indent=2) + "\n")
        stale = any(packages != _facts(earlier)["packages"] for earlier in _earlier(image.name, tag))
        for earlier in _earlier(image.name, tag):
            shutil.rmtree(earlier)
        result.rename(archive.parent)
    if stale or len(_buildah("images", "--all", "--quiet", quiet=True).stdout.split()) > _MANY:
        _buildah("rmi", "--prune", check=False, quiet=True)


def _write_bill(image: str, path: Path) -> None:
    container = _buildah("from", image, quiet=True).stdout.strip()
    try:
        bill.write(Path(_buildah("mount", container, quiet=True).stdout.strip()), image, path, cache() / "bill")
        _buildah("umount", container, quiet=True)
    finally:
        _buildah("rm", container, quiet=True)


def _earlier(name: str, tag: str) -> list[Path]:
    """Archives of the same image from other sources or bases: gigabytes, and none is asked for again."""
    pattern = f"{name}-" + "[0-9a-f]" * 12
    return [path for path in cache().glob(pattern) if _facts(path)["image"] == reference(name, tag)]


def _facts(folder: Path) -> dict[str, Any]:
    """What is written down beside an archive."""
    return dict(json.loads((folder / "image.json").read_text()))


def _base_key(base: str) -> str:
    return f"{DEBOOTSTRAP}-{debian.digest()}" if base == DEBOOTSTRAP else base


def _base(base: str) -> str:
    """The reference to build from; Debian's is made first if it is not there."""
    if base != DEBOOTSTRAP:
        return base
    image = f"{_PREFIX}/debian:{debian.digest()}"
    if not _buildah("images", "--quiet", image, check=False, quiet=True).returncode:
        return image
    _say("making a Debian 12 base with mmdebstrap")
    with tempfile.TemporaryDirectory(prefix=".debian-", dir=cache()) as folder:
        root = Path(folder) / "root.tar"
        debian.make(root)
        container = _buildah("from", "scratch", quiet=True).stdout.strip()
        _buildah("add", "--quiet", container, str(root), "/", quiet=True)
        _buildah("commit", "--quiet", "--rm", container, image, quiet=True)
    return image


def _own_mirror(work: Path) -> list[str]:
    """This machine's own apt sources in place of the public ones, while the build runs."""
    sources, folder = debian.own_sources(), work / "sources.list.d"
    if not sources:
        return []
    folder.mkdir()
    for path in sources:
        shutil.copyfile(path, folder / path.name)
    (work / "sources.list").touch()
    return [f"--volume={work / name}:/etc/apt/{name}:ro" for name in ("sources.list", "sources.list.d")]


def choose_base(base: str, names: Sequence[str], tag: str, arguments: Mapping[str, str]) -> str:
    """``auto`` resolved: a base for which all is built, else the public one if its registry answers, else Debian's."""
    if base != AUTO:
        return base
    public = recipe.read(names[0]).base
    for base in (public, DEBOOTSTRAP):
        if all(built(name, base, tag, arguments).exists() for name in names):
            return base
    registry = public.partition("/")[0].replace("docker.io", "registry-1.docker.io")
    try:
        urllib.request.urlopen(f"https://{registry}/v2/", timeout=_PROBE_S).close()
        return public
    except OSError as error:
        if isinstance(error, urllib.error.HTTPError) and error.code == 401:  # a registry that wants a token first
            return public
    _say(f"{registry} cannot be reached: building on a Debian 12 made of packages")
    return DEBOOTSTRAP


def buildah(*arguments: str) -> list[str]:
    """A command line of buildah on the storage of these images."""
    storage = cache() / "storage"
    return ["buildah", f"--root={storage}", f"--runroot={storage}-run", "--storage-driver=overlay", *arguments]


def _buildah(*arguments: str, check: bool = True, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    output = subprocess.PIPE if quiet else sys.stderr
    errors = None if check else subprocess.DEVNULL
    done = subprocess.run(buildah(*arguments), stdout=output, stderr=errors, text=True)
    if check and done.returncode:
        raise BuildError(f"buildah {arguments[0]} exited with {done.returncode}; see its output above")
    return done


def _missing_programs(base: str) -> list[str]:
    needed = _PROGRAMS if base == DEBOOTSTRAP else _PROGRAMS[:1]
    return [program for program in needed if not shutil.which(program)]


def _install_programs(base: str) -> None:
    if reason := lacking(base):
        raise BuildError(reason)
    if missing := _missing_programs(base):
        _say(f"installing {', '.join(missing)}")
        try:
            apt.install(missing)
        except apt.AptError as error:
            raise BuildError(str(error)) from error


@contextmanager
def _locked() -> Iterator[None]:
    """One build at a time: they share layers, and two at once would build an image twice."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def clean() -> None:
    """Remove every archive and every layer."""
    if (cache() / "storage").exists() and shutil.which("buildah"):
        _buildah("rm", "--all", check=False, quiet=True)
        _buildah("rmi", "--all", "--force", check=False, quiet=True)
    for name in [*recipe.names(), "storage", "bill"]:
        for path in (*cache().glob(f"{name}-*"), cache() / name):
            shutil.rmtree(path, ignore_errors=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for a failed build, 2 for bad arguments, 3 where no image can be built."""
    parser = argparse.ArgumentParser(prog="tools.images.build", description="Build images as OCI archives.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(recipe.names())}")
    parser.add_argument("--base", default=AUTO, help="image to build on, or debootstrap (default: Python's)")
    parser.add_argument("--index", default="", help="package index; default: what pip is set up for")
    parser.add_argument("--tag", default="", help=f"tag (default: {TAG}, and one of its own for any build arguments)")
    parser.add_argument("--build-arg", action="append", default=[], metavar="KEY=VALUE", help="argument of a recipe")
    parser.add_argument("--if-quick", action="store_true", help="leave out what needs packages that are not cached")
    parser.add_argument("--clean", action="store_true", help="remove all images and layers instead")
    options = parser.parse_args(words)
    if options.clean:
        clean()
        return 0
    names = options.names or recipe.names()
    arguments = dict(pair.partition("=")[::2] for pair in options.build_arg)
    base = arguments.pop("BASE", options.base)
    tag = options.tag or tag_of(arguments)
    try:
        base = choose_base(base, names, tag, arguments)
        if (reason := lacking(base)) and not all(built(name, base, tag, arguments).exists() for name in names):
            _say(reason)
            return 3
        archives = build(names, base, tag, options.index, arguments, options.if_quick)
    except (recipe.RecipeError, BuildError, subprocess.CalledProcessError) as error:
        _say(str(error))
        return 2 if isinstance(error, recipe.RecipeError) else 1
    for name, archive in archives.items():
        print(f"{reference(name, tag)}\t{archive.stat().st_size / 1e6:,.0f} MB\t{archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
