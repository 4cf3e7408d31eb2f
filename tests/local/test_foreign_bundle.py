"""A run resumed in a bundle that somebody else laid out: it touches what engines made, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_local import durable
from scalecurve_local.attempt import EXIT_FILE, ORDER_FILE, ExitReport
from scalecurve_local.bundle import BundleFolder
from scalecurve_local.errors import InputError, StorageError
from scalecurve_local.execution.running_trial import Order

from .conftest import Lab

pytestmark = pytest.mark.processes
ONE: dict[str, Any] = {"scaling": {"modes": ["weak"], "workers": [1], "batch": {"perWorker": 4}}}
T1 = "weak-1-1x1-r1"
HEX = "scalecurve-0123456789ab"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A user's folder that no run was told of."""
    thesis = tmp_path / "home" / "documents" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    return tmp_path / "home"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of this test's runs."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def interrupted(lab: Lab, attempt_id: str, ended: bool = False) -> Path:
    """A bundle with one attempt that was begun; `ended`: the supervisor reported that its command failed."""
    lab.write(**ONE)
    attempt = lab.bundle / ".work" / T1 / "attempt-1"
    attempt.mkdir(parents=True)
    (lab.bundle / "trials").mkdir()
    (lab.bundle / "experiment.yaml").write_text(lab.file.read_text())
    order = Order(
        id=attempt_id,
        commands=[],
        cwd="/",
        deadline_seconds=1,
        grace_seconds=1,
        exit_file=str(attempt / EXIT_FILE),
        temporary=f"{tempfile.gettempdir()}/{attempt_id}",
        oom_counters=[],
        begun_ns=1,
        devices=[],
        oversubscribed=False,
    )
    (attempt / ORDER_FILE).write_text(order.model_dump_json(by_alias=True))
    if ended:
        report = ExitReport(cause="start-failed", started_ns=1, ended_ns=2)
        (attempt / EXIT_FILE).write_text(report.model_dump_json(by_alias=True))
    return attempt


def layout(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every path below, with what a write would change."""

    def content(path: Path) -> bytes | str:
        return os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""

    return {str(path): (path.lstat().st_mtime_ns, content(path)) for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("ended", [False, True], ids=["discarded", "collected"])
@pytest.mark.parametrize(
    "attempt_id",
    [
        "{victim}/documents",
        "../home/documents",
        "scalecurve-0123456789ab/../../home/documents",
        "scalecurve-documents",
        "scalecurve-0123456789ab/inside",
        "{victim}/scalecurve-0123456789ab",
        ".",
        "",
    ],
)
def test_only_a_temporary_folder_of_engines_is_removed(
    lab: Lab, victim: Path, scratch: Path, attempt_id: str, ended: bool
) -> None:
    interrupted(lab, attempt_id.format(victim=victim), ended)
    for folder in (victim / HEX, scratch / "scalecurve-documents", scratch / HEX / "inside"):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("mine")
    before = [layout(victim), layout(scratch)]
    lab.run(resume=True)
    assert [layout(victim), layout(scratch)] == before
    assert lab.published() == [T1]


@pytest.mark.parametrize("ended", [False, True], ids=["discarded", "collected"])
def test_what_an_engine_left_there_is_removed(lab: Lab, scratch: Path, ended: bool) -> None:
    interrupted(lab, HEX, ended)
    (scratch / HEX / "deep").mkdir(parents=True)
    (scratch / HEX / "deep" / "file").touch()
    lab.run(resume=True)
    assert not list(scratch.iterdir())


def test_a_link_or_a_stranger_s_folder_in_the_place_of_a_temporary_one_is_left(
    lab: Lab, victim: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scratch / HEX).symlink_to(victim / "documents")
    interrupted(lab, HEX)
    before = layout(victim)
    lab.run(resume=True)
    assert layout(victim) == before
    assert (scratch / HEX).is_symlink()
    (scratch / HEX).unlink()
    (scratch / HEX).mkdir()
    (lab.bundle / "trials" / T1).rename(lab.folder / "away")
    (lab.bundle / "trials").rmdir()
    (lab.bundle / "experiment.yaml").unlink()
    interrupted(lab, HEX)
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    lab.run(resume=True)
    assert (scratch / HEX).is_dir()


def link(place: str) -> Callable[[Path, Path], None]:
    """Put a link in the place of a folder or file of the bundle, whose content moves to where it points."""

    def lay(bundle: Path, victim: Path) -> None:
        moved = victim / "moved"
        (bundle / place).rename(moved)
        (bundle / place).symlink_to(moved)

    return lay


@pytest.mark.parametrize(
    "place",
    [
        "trials",
        ".work",
        ".work/lock",
        f".work/{T1}",
        f".work/{T1}/attempt-1",
        f"trials/{T1}",
        "experiment.yaml",
    ],
)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_a_bundle_is_refused_before_anything_is_touched(
    lab: Lab, victim: Path, scratch: Path, place: str, dangling: bool
) -> None:
    interrupted(lab, HEX)
    (lab.bundle / ".work" / "lock").touch()
    (lab.bundle / "trials" / T1).mkdir()
    link(place)(lab.bundle, victim)
    if dangling:
        (lab.bundle / place).unlink()
        (lab.bundle / place).symlink_to(victim / "absent")
    before = layout(lab.folder)
    with pytest.raises(InputError, match=rf"{lab.bundle}/{place}: is a link"):
        lab.run(resume=True)
    assert layout(lab.folder) == before


ENGINE_FILES = ("rank-0.json", "rank-0.steps", "rank-0.ready.json", "rank-0.failure.json")


@pytest.mark.parametrize("file", ENGINE_FILES)
@pytest.mark.parametrize(
    "how", ["link:0:{}:/dev/zero", "link:0:{}:/etc/hostname", "fifo:0:{}", "sparse:0:{}:1099511627776"]
)
def test_what_a_rank_left_is_read_neither_through_links_nor_without_end(lab: Lab, file: str, how: str) -> None:
    lab.write(how.format(file), **ONE)
    lab.run()
    record = lab.record(T1)
    if file in ("rank-0.json", "rank-0.steps"):
        assert (record["phase"], record["reason"]) == ("Failed", "BadWorkload")
        said = {"link": "is a link", "fifo": "is not a regular file", "spar": "has 1099511627776 bytes; the limit is"}
        assert record["message"].startswith(f"rank 0: {file} ")
        assert said[how[:4]] in record["message"]
    else:
        assert record["phase"] == "Succeeded"


@pytest.mark.parametrize("log", ["launcher.log", "rank-0.log"])
def test_a_log_is_copied_neither_through_a_link_nor_without_end(lab: Lab, victim: Path, log: str) -> None:
    secret = victim / "documents" / "thesis.tex"
    lab.write(f"link:0:logs/{log}:{secret}", **ONE)
    lab.run()
    assert lab.record(T1)["phase"] == "Succeeded"
    assert not (lab.bundle / "trials" / T1 / "logs" / log).exists()


@pytest.mark.parametrize("torn", ["", "{", "null", "[" * 9999, "\udcff", "{}"])
@pytest.mark.parametrize("file", [ORDER_FILE, EXIT_FILE])
def test_an_attempt_whose_papers_are_torn_is_thrown_away(lab: Lab, scratch: Path, file: str, torn: str) -> None:
    attempt = interrupted(lab, HEX, ended=True)
    (attempt / file).write_text(torn, errors="surrogateescape")
    result = lab.run(resume=True)
    assert result.exit_code == 0
    assert lab.record(T1)["attempt"] == 2
    (said,) = result.damage
    assert said.startswith(f"{T1}: attempt 1 was thrown away and is run again: {attempt / file}: is damaged")


@pytest.mark.parametrize("target", ["/dev/zero", "{home}/absent", "{home}/documents/thesis.tex"])
def test_papers_that_are_links_are_torn_too(lab: Lab, victim: Path, scratch: Path, target: str) -> None:
    attempt = interrupted(lab, HEX)
    for file in (ORDER_FILE, EXIT_FILE):
        (attempt / file).unlink(missing_ok=True)
        (attempt / file).symlink_to(target.format(home=victim))
    before = layout(victim)
    assert lab.run(resume=True).exit_code == 0
    assert lab.record(T1)["attempt"] == 2
    assert layout(victim) == before


def test_a_torn_report_on_a_run_that_had_ended_costs_nothing(lab: Lab) -> None:
    lab.write(**ONE)
    attempt = lab.bundle / ".work" / T1 / "attempt-1"
    lab.killed((attempt / "rank-0.json").exists)
    (attempt / EXIT_FILE).write_text("{")
    result = lab.run(resume=True)
    assert result.exit_code == 0
    assert lab.record(T1)["attempt"] == 1
    (said,) = result.damage
    assert said.startswith(f"{T1}: attempt 1 was complete and is kept: {attempt / EXIT_FILE}: is damaged")


def test_the_ledger_says_why_a_torn_attempt_was_thrown_away(lab: Lab) -> None:
    lab.write(f"once:{lab.folder}/flag:hang:0", **ONE)
    lab.killed((lab.folder / "flag").exists)
    order = lab.bundle / ".work" / T1 / "attempt-1" / ORDER_FILE
    order.write_text("{")
    assert lab.run(resume=True).exit_code == 0
    entries = [json.loads(line) for line in (lab.bundle / "ledger.jsonl").read_text().splitlines()]
    (thrown,) = (entry for entry in entries if entry["event"] == "attempt-discarded")
    assert (thrown["trial"], thrown["attempt"]) == (T1, 1)
    assert f"{ORDER_FILE}: is damaged" in thrown["why"]


@pytest.mark.parametrize("place", ["result", "result.new", "logs"])
def test_a_link_inside_an_attempt_leads_nowhere(lab: Lab, victim: Path, scratch: Path, place: str) -> None:
    attempt = interrupted(lab, HEX, ended=True)
    (attempt / place).symlink_to(victim / "documents")
    before = layout(victim)
    with pytest.raises(StorageError, match=rf"{attempt / place}.*is a link") if place != "logs" else nullcontext():
        lab.run(resume=True)
    assert layout(victim) == before


GUARDED = (".work", "trials", f".work/{T1}", f".work/{T1}/attempt-1", f"trials/{T1}", "experiment.yaml", ".work/lock")
INSIDE = tuple(f".work/{T1}/attempt-1/{name}" for name in (*ENGINE_FILES, "result", "result.new", "logs", EXIT_FILE))
TARGETS = ("home", "home/documents", "home/documents/thesis.tex", "absent", "bundle", "bundle/trials", ".", "/")


@settings(max_examples=200)
@given(
    laid=st.dictionaries(st.sampled_from(GUARDED + INSIDE), st.sampled_from(TARGETS), min_size=1, max_size=4),
    relative=st.booleans(),
    torn=st.booleans(),
)
def test_no_layout_of_links_leads_out_of_the_bundle(laid: dict[str, str], relative: bool, torn: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, bundle = Path(folder, "home"), Path(folder, "bundle")
        (home / "documents").mkdir(parents=True)
        (Path(folder, "ledger")).mkdir()
        (home / "documents" / "thesis.tex").write_text("years of work")
        (bundle / ".work" / T1 / "attempt-1").mkdir(parents=True)
        (bundle / "trials").mkdir()
        for place in sorted(laid):
            if (bundle / place).parent.is_dir() and not (bundle / place).parent.is_symlink():
                put_link(bundle / place, Path(folder, laid[place]), relative)
        if torn and not (bundle / ".work").is_symlink() and (attempt := bundle / f".work/{T1}/attempt-1").is_dir():
            (attempt / ORDER_FILE).write_text("{") if not attempt.is_symlink() else None
        before, own = layout(home), layout(Path(folder))
        there = BundleFolder(bundle)
        if any((bundle / place).is_symlink() for place in GUARDED):
            with pytest.raises(InputError, match="is a link to "):
                there.refuse_links()
            assert layout(Path(folder)) == own
        else:
            there.refuse_links()
            for act in (
                lambda: there.discard_damaged(T1, 1, LedgerFile(Path(folder, "ledger"))),
                lambda: there.attempts(T1)[0][0].complete(1),
                lambda: there.attempts(T1)[0][0].journals(1),
                lambda: there.attempts(T1)[0][0].result,
                lambda: there.publish(T1, there.attempts(T1)[0][0]),
                lambda: there.forget(T1),
                lambda: durable.remove(there.work),
            ):
                with suppress(StorageError, IndexError):
                    act()
            assert sorted(os.listdir(bundle)) == ["trials"]
            assert not any(path.is_symlink() for path in (bundle / "trials").rglob("*"))
        assert layout(home) == before


def put_link(place: Path, target: Path, relative: bool) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(os.path.relpath(target, place.parent) if relative else target)
