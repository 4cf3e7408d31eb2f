"""What every Containerfile keeps to, read from the files themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.images.containerfile import copied_to, instructions_of, stages_of
from tools.images import archives

PROJECT = tomllib.loads((archives.ROOT / "pyproject.toml").read_text())["project"]
NAMES = list(archives.targets())
WORKERS = [name for name in NAMES if name.startswith("worker-")]


def instructions(name: str) -> list[tuple[str, str]]:
    return instructions_of(name)


def last(name: str, word: str) -> str:
    return [rest for found, rest in instructions(name) if found == word][-1]


def test_the_images_of_the_design_are_there() -> None:
    assert set(NAMES) >= {"operator", "worker-horovod", "worker-mpi", "worker-tensorflow", "worker-torch"}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_that_nobody_pinned(name: str) -> None:
    words = {word for word, _ in instructions(name)}
    assert not words & {"ADD", "HEALTHCHECK", "ONBUILD", "VOLUME", "MAINTAINER"}
    scripts = [each for source in copied_to(name) for each in (archives.ROOT / source).rglob("*.sh")]
    text = "\n".join(rest for word, rest in instructions(name) if word == "RUN")
    text += "\n".join(each.read_text() for each in scripts)
    assert not re.search(r"\b(curl|wget|git clone)\b", text)
    # No index and no host stands in an image: pip's settings come in as a secret.
    assert "://" not in text
    installs = re.findall(r"(?:^|\s)install --quiet [^&]*", text)
    pip = [found for found in installs if "--no-cache-dir" in found]
    assert pip
    assert all(re.search(r"-c /opt|--require-hashes -r /|--no-index", found) for found in pip), pip


@pytest.mark.parametrize("name", NAMES)
def test_the_base_is_an_argument_of_every_stage(name: str) -> None:
    assert instructions(name)[0][0] == "ARG"
    assert instructions(name)[0][1].startswith("BASE=docker.io/")
    _, code, *rest = stages_of(name)
    assert (code.name, code.base, rest[0].base) == ("code", "${BASE}", "${BASE}")
    assert [stage.base for stage in rest[1:]] == [stage.name for stage in rest[:-1]]


@pytest.mark.parametrize("name", NAMES)
def test_the_user_is_a_number_and_not_root(name: str) -> None:
    user, _, group = last(name, "USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert user == ("1000" if name in WORKERS else "65532")


@pytest.mark.parametrize("name", NAMES)
def test_labels_say_what_it_is(name: str) -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', last(name, "LABEL")))
    assert set(labels) >= {"title", "description", "licenses", "version"}
    assert (labels["version"], labels["licenses"]) == (PROJECT["version"], PROJECT["license"])
    assert labels["title"] == f"scalecurve {name}"


@pytest.mark.parametrize("name", NAMES)
def test_code_is_the_last_layer(name: str) -> None:
    words = [(word, rest) for word, rest in instructions(name) if word in ("FROM", "RUN", "COPY")]
    assert words[-1] == ("COPY", "--from=code /code /opt/scalecurve/code")


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_where_the_cache_of_layers_sees_them(name: str) -> None:
    """buildah takes an ENV or a LABEL from another build whatever the value of an argument is now."""
    assert not [(word, rest) for word, rest in instructions(name) if word not in ("ARG", "FROM", "RUN") and "$" in rest]


def test_workers_share_their_first_layers() -> None:
    first = []
    for name in WORKERS:
        found = [each for each in instructions(name) if each[0] != "FROM"]
        first.append(found[: found.index(("COPY", "images/worker/nslookup /usr/local/bin/")) + 1])
    assert all(each == first[0] for each in first), "the same lines in each, or they have no layer in common"


@pytest.mark.parametrize(
    ("name", "beside"), [("worker-torch", "worker-horovod"), ("worker-tensorflow", "worker-tensorflow-horovod")]
)
def test_a_framework_is_installed_once_for_both_images_that_have_it(name: str, beside: str) -> None:
    plain, more = stages_of(name), stages_of(beside)
    assert plain[:-1] == more[:-1]
    assert not any("horovod" in rest for stage in plain for _, rest in stage.instructions)


@pytest.mark.parametrize(
    ("requirements", "optional"),
    [("images/worker/requirements.txt", ["mpi", "dev"]), ("images/operator/requirements.txt", ["operator"])],
)
def test_what_an_image_needs_is_what_the_distribution_asks_for(requirements: str, optional: list[str]) -> None:
    asked = [*PROJECT["dependencies"], *(each for name in optional for each in PROJECT["optional-dependencies"][name])]
    known = {re.split(r"[<>=\[ ]", each)[0] for each in asked}
    lines = (archives.ROOT / requirements).read_text().splitlines()
    wanted = {line for line in lines if line and not line.startswith("#")}
    assert wanted <= known
    pinned = {line.split("==")[0] for line in Path(archives.ROOT, "constraints.txt").read_text().splitlines()}
    assert wanted <= pinned


@pytest.mark.parametrize(
    ("name", "optional"),
    [
        ("worker-torch", "torch"),
        ("worker-horovod", "torch"),
        ("worker-tensorflow", "tensorflow"),
        ("worker-tensorflow-horovod", "tensorflow"),
    ],
)
def test_a_framework_comes_with_all_that_its_extra_asks_for(name: str, optional: str) -> None:
    asked = {re.split(r"[<>=\[ ]", each)[0] for each in PROJECT["optional-dependencies"][optional]}
    locks = "".join((archives.ROOT / each).read_text() for each in copied_to(name) if each.startswith("locks/"))
    assert asked <= {line.split("==")[0] for line in locks.splitlines()}
