"""The same files from a folder, a git repository and archives; hostile archives are refused or skipped in one line."""

import gzip
import io
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from scalecurve.corpus import results_archive, results_member
from scalecurve.corpus.results_member import ResultFile, Selection
from scalecurve.corpus.results_repository import is_results_repository, members, origin
from scalecurve.corpus.schema import NOT_STATED, CorpusError
from tests.analysis.corpus.synthetic_round import APACHE, bare_of, logs, write_bare, write_folder, write_tar, write_zip

OTHERS = {"README.md": b"hello", "Acme/benchmarks/bert/run.py": b"x", "Acme/results/8xH100/bert/notes.txt": b"x"}
FILES = {**logs(), "LICENSE.md": APACHE, "Acme/results/8xH100/llama2_70b_lora/scaling.json": b"{}"}
LOG = "Acme/results/8xH100/llama2_70b_lora/result_0.txt"


def read(path: Path) -> tuple[dict[str, bytes], Selection]:
    selection = Selection(str(path))
    return {member.name: member.data for member in members(path, selection)}, selection


def refusal(path: Path) -> str:
    with pytest.raises(CorpusError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "bare", "zip", "flat.zip", "tar", "tar.gz"])
def test_every_kind_of_repository_gives_the_same_members(kind: str, tmp_path: Path) -> None:
    path, files = tmp_path / f"round.{kind}", {**FILES, **OTHERS}
    write = {
        "folder": write_folder,
        "bare": write_bare,
        "zip": write_zip,
        "flat.zip": lambda path, files: write_zip(path, files, ""),
    }.get(kind, write_tar)
    found, selection = read(write(path, files))
    assert found == FILES
    assert selection.skipped == []


def test_members_name_their_point(tmp_path: Path) -> None:
    found = {member.name: member for member in members(write_folder(tmp_path, FILES), Selection("a"))}
    assert found[LOG] == ResultFile(LOG, "Acme", "8xH100", "llama2_70b_lora", FILES[LOG])
    assert found["Acme/systems/8xH100.json"].benchmark == found["LICENSE.md"].submitter == ""
    assert [member.name.rpartition("/")[2] for member in found.values() if member.is_scaling] == ["scaling.json"]


def test_detection(tmp_path: Path) -> None:
    assert is_results_repository(write_folder(tmp_path / "folder", FILES))
    assert is_results_repository(write_bare(tmp_path / "bare", FILES))
    assert not is_results_repository(write_folder(tmp_path / "other", OTHERS))
    assert not is_results_repository(write_zip(tmp_path / "a.zip", FILES))
    assert not is_results_repository(tmp_path / "missing")


def test_the_origin_is_the_round_in_the_path_and_the_commit(tmp_path: Path) -> None:
    known = origin(write_bare(tmp_path / "training_results_v9.1", FILES))
    assert (known.name, known.url) == ("mlperf-9.1", "https://github.com/mlcommons/training_results_v9.1")
    assert len(known.revision.partition("commit ")[2]) == 40
    other = origin(write_folder(tmp_path / "lab", FILES))
    assert (other.name, other.url, other.revision) == ("lab", NOT_STATED, NOT_STATED)


def test_an_archive_names_its_commit(tmp_path: Path) -> None:
    commit = "0123456789" * 4
    packed = write_zip(tmp_path / "a.zip", FILES)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.comment = commit.encode()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": commit}) as tar:
        tar.addfile(tarfile.TarInfo("README.md"))
    assert origin(packed).revision == origin(tmp_path / "a.tar.gz").revision == f"commit {commit}"


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    root = write_folder(tmp_path / "round", FILES)
    (root / "Acme/results/8xH100/llama2_70b_lora/result_9.txt").symlink_to(secret)
    (root / "Other").symlink_to(root / "Acme")
    assert read(root)[0] == FILES
    assert read(bare_of(root, tmp_path / "bare"))[0] == FILES


def test_links_in_archives_are_skipped(tmp_path: Path) -> None:
    link = zipfile.ZipInfo(LOG)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo(LOG)
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    for path in (tmp_path / "a.zip", tmp_path / "a.tar"):
        found, selection = read(path)
        assert (found, [name for name, _ in selection.skipped]) == ({}, [LOG])


@pytest.mark.parametrize("name", [f"../{LOG}", f"/{LOG}", f"a/../{LOG}", f"{LOG}\x1b.txt", LOG.replace("8x", "8\\x")])
def test_unsafe_names_are_skipped(name: str, tmp_path: Path) -> None:
    for path in (write_zip(tmp_path / "a.zip", {name: b"x", "b/c": b""}, ""), tmp_path / "a.tar"):
        if path.suffix == ".tar":
            with tarfile.open(path, "w") as tar:
                tar.addfile(tarfile.TarInfo(name), io.BytesIO())
        found, selection = read(path)
        assert found == {}
        assert [why for _, why in selection.skipped] == ["unsafe name"]


def test_a_zip_that_declares_too_much_is_skipped(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {LOG: b"\0" * 100, "LICENSE": APACHE}, "")
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    path.write_bytes(data[: at + 24] + (1 << 20).to_bytes(4, "little") + data[at + 28 :])
    found, selection = read(path)
    assert set(found) == {"LICENSE"}
    assert [name for name, _ in selection.skipped] == [LOG]


def test_large_members_are_skipped_and_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_member, "MOST_MEMBER_BYTES", len(FILES[LOG]) - 1)
    for path in (
        write_folder(tmp_path / "a", FILES),
        write_bare(tmp_path / "b", FILES),
        write_zip(tmp_path / "c", FILES),
    ):
        found, selection = read(path)
        assert LOG not in found
        assert len(selection.skipped) == 3
    monkeypatch.setattr(results_member, "MOST_MEMBERS", 1)
    assert str(tmp_path / "a") in refusal(tmp_path / "a")
    monkeypatch.setattr(results_member, "MOST_ENTRIES", 2)
    assert " 2 " in refusal(tmp_path / "c")


def test_a_bomb_of_a_tar_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_archive, "_MAX_TAR_BYTES", 1 << 20)
    assert "unpacked" in refusal(write_tar(tmp_path / "a.tar.gz", {"README.md": b"\0" * (2 << 20), "z": b""}))


def test_a_tar_header_without_end_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 31
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(header.tobuf(tarfile.USTAR_FORMAT)))
    assert "header" in refusal(tmp_path / "a.tar.gz")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_truncated_archives_are_refused(name: str, tmp_path: Path) -> None:
    path = (write_zip if name == "a.zip" else write_tar)(tmp_path / name, FILES)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert str(path) in refusal(path)


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    assert "a.txt" in refusal(tmp_path / "a.txt")
    assert "missing" in refusal(tmp_path / "missing")
    (tmp_path / "git/objects").mkdir(parents=True)
    (tmp_path / "git/HEAD").write_text("nothing")
    assert "git" in refusal(tmp_path / "git")


def test_objects_that_are_not_there_are_skipped(tmp_path: Path) -> None:
    bare = write_bare(tmp_path / "bare", FILES)
    for pack in (bare / "objects").glob("pack/*"):
        pack.unlink()
    loose = {path: path.read_bytes() for path in (bare / "objects").glob("??/*")}
    assert loose, "a clone of a small repository on one disk keeps loose objects"
    large = max(loose, key=lambda path: len(loose[path]))
    large.unlink()
    found, selection = read(bare)
    assert len(found) == len(FILES) - len(selection.skipped)
    assert selection.skipped


def test_settings_of_a_repository_start_no_program(tmp_path: Path) -> None:
    bare = write_bare(tmp_path / "bare", FILES)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o755)
    with (bare / "config").open("a") as config:
        config.write(f"[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {program}\n\tpager = {program}\n")
        config.write(f'[remote "origin"]\n\tpromisor = true\n\tuploadpack = {program}\n')
        config.write("[extensions]\n\tpartialClone = origin\n")
    digest = subprocess.run(["git", "-C", bare, "rev-parse", f"HEAD:{LOG}"], check=True, capture_output=True, text=True)
    (bare / "objects" / digest.stdout[:2] / digest.stdout[2:].strip()).unlink()
    read(bare)
    origin(bare)
    assert not (tmp_path / "started").exists()
