"""The verbs that pull, against a real API server that holds trials whose names are paths."""

from __future__ import annotations

import copy
import itertools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scalecurve.cluster.experiments import find
from scalecurve.cluster.pull import pull
from scalecurve_kube.address import ClusterAddress
from scalecurve_kube.errors import ClusterError
from tests.cluster.cli_desk import Desk
from tests.cluster.kept import Kept, keep
from tests.waiting import eventually
from tools.devcluster.rest import MERGE, ApiError
from tools.devcluster.tier import Tier

GOOD = "weak-1-1x1-r1"
OTHER = "weak-2-1x2-r1"
SAFE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VERBS = (("pull", "exp"), ("report", "exp"))
NAMES = (
    "{victim}/documents",
    "../../../home/documents",
    "..",
    ".",
    "",
    "a/b",
    ".work",
    "A",
    "a" * 64,
    "a\x1b]0;x\x07",
    "a\n",
)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A user's folder that no verb was told of."""
    thesis = tmp_path / "home" / "documents" / "a" / "b" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    return tmp_path / "home"


@pytest.fixture(scope="module")
def lax(tier: Tier) -> Iterator[Tier]:
    """The tier with a CRD that takes any name, as one of an older version or of a stranger does."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scalingtrials.scalecurve.dev"
    made = tier.rest.call("GET", path)
    changed = copy.deepcopy(made["spec"]["versions"])
    fields = changed[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["name"] = {"type": "string"}
    tier.rest.call("PATCH", path, {"spec": {"versions": changed}}, kind=MERGE)
    yield tier
    tier.rest.call("PATCH", path, {"spec": {"versions": made["spec"]["versions"]}}, kind=MERGE)


@pytest.fixture
def desk(tier: Tier, namespace: str, tmp_path: Path) -> Desk:
    (tmp_path / "desk").mkdir()
    return Desk(tier, tmp_path / "desk", namespace)


def hostile(tier: Tier, namespace: str, name: str) -> Kept:
    """An experiment with one sound trial, and one whose spec.name is `name` and whose record is whole."""
    kept = keep(tier, namespace, "exp")
    kept.end(GOOD)
    kept.trials[name] = kept.trials[OTHER].model_copy(update={"name": name})
    until_taken(lambda: kept.end(name))
    return kept


def until_taken(create: Callable[[], object]) -> None:
    """Create, once the API server has heard of the CRD's change."""

    def taken() -> bool:
        try:
            create()
        except ApiError as error:
            if error.status != 422:
                raise
            return False
        return True

    eventually(taken, "the CRD's change")


def layout(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below, with what a write would change."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_the_api_server_refuses_such_a_name_by_itself(tier: Tier, namespace: str) -> None:
    kept = keep(tier, namespace, "exp")
    for name in NAMES:
        kept.trials[name] = kept.trials[OTHER].model_copy(update={"name": name})
        with pytest.raises(ApiError, match=r"422 .*spec\.name") as refused:
            kept.begin(name)
        assert "should match" in str(refused.value) or "Too long" in str(refused.value)
    kept.trials["x"] = kept.trials[OTHER].model_copy(update={"experiment": "../x"})
    with pytest.raises(ApiError, match=r"422 .*spec\.experiment"):
        kept.begin("x")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_that_is_a_path_is_refused_before_anything_is_touched(
    desk: Desk, lax: Tier, namespace: str, victim: Path, tmp_path: Path, name: str
) -> None:
    name = name.format(victim=victim)
    hostile(lax, namespace, name)
    before = layout(tmp_path)
    for words in VERBS:
        refused = desk(*words, code=3)
        assert "ScalingTrial exp-" in refused.err
        assert "spec.name" in refused.err
        assert "expected 1 to 63 lower-case letters, digits and inner dashes" in refused.err
        assert "\x1b" not in refused.err
        assert refused.err.count("\n") == 1
        assert layout(tmp_path) == before


def generated(count: int) -> list[str]:
    """Names made of pieces that paths, shells, terminals and file systems give a meaning to; seeded."""
    draw = random.Random(15)
    pieces = ("..", ".", "/", "//", "~", "$HOME", "\\", "\x00", "\n", "\x1b[2J", " ", "-", "a", "A", "weak-1-1x1-r1")
    pieces += (
        "trials",
        ".work",
        "{victim}/documents",
        "../" * 5,
        "\u202e",
        "\u2044",
        "ß",
        "%2e%2e%2f",
        "a" * 60,
    )
    names = ("".join(draw.choices(pieces, k=draw.randint(1, 5))) for _ in itertools.count())
    return list(itertools.islice((name for name in names if not SAFE.fullmatch(name)), count))


def test_200_generated_names_are_refused_before_anything_is_touched(
    desk: Desk, lax: Tier, namespace: str, victim: Path, tmp_path: Path
) -> None:
    kept = hostile(lax, namespace, "..")
    before = layout(tmp_path)
    path = kept.path("scalingtrials", "exp-x")
    stored = lax.rest.call("GET", path)
    address = ClusterAddress(namespace, kubeconfig=Path(desk.where[1]))
    cluster, watched = find(address, "exp")
    for name in generated(200):
        lax.rest.raw("DELETE", path)
        stored["spec"]["name"] = name.format(victim=victim)
        fresh = {"name": "exp-x", "labels": stored["metadata"]["labels"]}
        lax.rest.call("POST", kept.path("scalingtrials"), {**stored, "metadata": fresh})
        with pytest.raises(ClusterError, match=r"ScalingTrial exp-x: spec\.name: got .*; expected 1 to 63"):
            pull(cluster, watched, desk.folder / "results" / "exp")
        assert layout(tmp_path) == before


def test_a_bundle_that_was_sound_stays_as_it_was(
    desk: Desk, lax: Tier, namespace: str, victim: Path, tmp_path: Path
) -> None:
    kept = keep(lax, namespace, "exp")
    kept.end(GOOD)
    desk("pull", "exp")
    before = layout(tmp_path)
    kept.trials["../x"] = kept.trials[OTHER].model_copy(update={"name": "../x"})
    until_taken(lambda: kept.end("../x"))
    desk("pull", "exp", code=3)
    assert layout(tmp_path) == before


def test_one_name_for_two_trials_is_refused(desk: Desk, tier: Tier, namespace: str) -> None:
    kept = keep(tier, namespace, "exp")
    kept.end(GOOD)
    kept.trials["twin"] = kept.trials[GOOD]
    kept.end("twin")
    assert f"exp-twin and exp-{GOOD} both have spec.name {GOOD}" in desk("pull", "exp", code=3).err
    assert not list(desk.folder.iterdir())


@pytest.mark.parametrize("name", ["../../../../../api/v1/namespaces/kube-system", "..", "a/b", "a%2fb"])
def test_a_record_s_name_is_no_path_of_the_api(desk: Desk, tier: Tier, namespace: str, name: str) -> None:
    kept = keep(tier, namespace, "exp")
    kept.end(GOOD)
    path = kept.path("scalingtrials", f"exp-{GOOD}", "status")
    record = tier.rest.call("GET", path)["status"]["record"]
    with pytest.raises(ApiError, match=r"422 .*configMaps"):
        tier.rest.call("PATCH", path, {"status": {"record": {**record, "configMaps": [name]}}}, kind=MERGE)


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("place", ["trials", ".work", ".work/lock", ".work/pull", f"trials/{GOOD}", f"trials/{OTHER}"])
def test_a_link_in_the_bundle_is_refused_before_anything_is_touched(
    desk: Desk, tier: Tier, namespace: str, victim: Path, tmp_path: Path, place: str, dangling: bool
) -> None:
    kept = keep(tier, namespace, "exp")
    kept.end(GOOD)
    desk("pull", "exp", "--into", "b")
    kept.end(OTHER)
    link = desk.folder / "b" / place
    if link.exists():
        link.rename(victim / "moved")
    link.symlink_to(victim / ("absent" if dangling else "moved" if (victim / "moved").exists() else "documents"))
    before = layout(tmp_path)
    refused = desk("pull", "exp", "--into", "b", code=2)
    assert f"b/{place}: is a link to {victim}/" in refused.err
    assert layout(tmp_path) == before


def test_what_no_engine_made_is_not_removed_with_a_damaged_trial(desk: Desk, tier: Tier, namespace: str) -> None:
    kept = keep(tier, namespace, "exp")
    kept.end(GOOD)
    desk("pull", "exp", "--into", "b")
    trial = desk.folder / "b" / "trials" / GOOD
    (trial / "notes.txt").write_text("mine")
    desk("pull", "exp", "--into", "b")
    (trial / "steps.parquet").write_bytes(b"PAR1")
    refused = desk("pull", "exp", "--into", "b", code=1)
    assert f"{GOOD}: not fetched: b/trials/{GOOD} holds notes.txt, which no engine made" in refused.err
    assert (trial / "notes.txt").read_text() == "mine"
    (trial / "notes.txt").unlink()
    assert "trials fetched: 1" in desk("pull", "exp", "--into", "b").out
