"""A packed bundle is the bundle: the same bytes, the same numbers from every verb, and no trust in the file."""

import hashlib
import json
import re
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack, unpack
from scalecurve.bundle.packed import SUMS_FILE
from scalecurve.bundle.problem import BundleError
from scalecurve.bundle.step_summary import summarize_steps
from scalecurve.cli import cli
from tests.analysis.synthetic import experiment, write_bundle

SPEC = experiment("packed", modes=["weak"], workers=[1, 2], repetitions=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    bundle = write_bundle(tmp_path_factory.mktemp("pack") / "bundle", SPEC)
    (bundle / ".work").mkdir()
    (bundle / ".work" / "lock").touch()
    (bundle / "report").mkdir()
    (bundle / "report" / "report.html").write_text("made from the records")
    (bundle / "trials" / "weak-1-1x1-r1" / "logs").mkdir()
    (bundle / "trials" / "weak-1-1x1-r1" / "logs" / "rank-0.log").write_text("step 1\n" * 10_000)
    return bundle


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    return pack(folder, folder.with_name("packed.zip")).path


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def records_of(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(folder).items() if name.startswith(("trials/", "experiment.yaml"))}


def run(*args: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


class TestRoundTrip:
    def test_unpacked_is_byte_identical(self, folder: Path, packed: Path, tmp_path: Path):
        assert files_of(unpack(packed, tmp_path / "again")) == records_of(folder)

    def test_the_same_bundle_gives_the_same_file(self, folder: Path, packed: Path, tmp_path: Path):
        copy = shutil.copytree(folder, tmp_path / "copy")
        assert pack(copy, tmp_path / "b.zip").path.read_bytes() == packed.read_bytes()

    def test_what_it_says(self, folder: Path, tmp_path: Path):
        seen: list[tuple[int, int]] = []
        result = pack(folder, tmp_path / "deep" / "b.zip", lambda done, total: seen.append((done, total)))
        records = records_of(folder)
        assert (result.records, result.files) == (4, len(records))
        assert result.unpacked_bytes == sum(map(len, records.values())) == seen[-1][0] == seen[-1][1]
        assert result.packed_bytes == result.path.stat().st_size
        assert result.sha256 == hashlib.sha256(result.path.read_bytes()).hexdigest()
        assert [path.name for path in result.path.parent.iterdir()] == ["b.zip"]

    def test_any_unzip_and_sha256sum_check_it(self, packed: Path, tmp_path: Path):
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(tmp_path)
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS_FILE], cwd=tmp_path, check=True)

    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(
        files=st.dictionaries(
            st.lists(st.from_regex(r"[A-Za-z0-9_é][\w. -]{0,8}[\wé]", fullmatch=True), min_size=1, max_size=3).map(
                "/".join
            ),
            st.binary(max_size=200) | st.binary(max_size=5).map(lambda data: data * 4096),
            max_size=6,
        )
    )
    def test_any_files(self, files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory):
        names = sorted(files)
        inner = {name for name in names if any(other.startswith(f"{name}/") for other in names)}
        root = tmp_path_factory.mktemp("any")
        (root / "bundle" / "trials").mkdir(parents=True)
        (root / "bundle" / "experiment.yaml").write_text("kind: ScalingExperiment\n")
        for name in files.keys() - inner:
            path = root / "bundle" / "trials" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
        packed = pack(root / "bundle", root / "b.zip").path
        assert files_of(unpack(packed, root / "again")) == files_of(root / "bundle")
        assert open_bundle(packed).problems == open_bundle(root / "again").problems


class TestReading:
    def test_a_packed_bundle_is_read_as_its_folder_is(self, folder: Path, packed: Path):
        here, there = open_bundle(folder), open_bundle(packed)
        assert (there.label, there.experiment, there.problems) == (here.label, here.experiment, ())
        assert there.plan is not None
        assert here.plan is not None
        assert list(there.plan.trials) == list(here.plan.trials)
        assert [(t.name, t.record) for t in there.trials] == [(t.name, t.record) for t in here.trials]
        assert summarize_steps([there]).of == summarize_steps([here]).of != {}

    @pytest.mark.parametrize(
        "verb",
        [
            *(("status",), ("diagnose",), ("cost", "--per-worker-hour", "1"), ("training",), ("allreduce",)),
            *(("fit",), ("recommend",), ("predict", "--workers", "4"), ("predict", "scaling", "--workers", "4")),
        ],
        ids=" ".join,
    )
    def test_every_verb_prints_the_same(self, verb: tuple[str, ...], folder: Path, packed: Path):
        (*words,) = verb
        at = 2 if verb[:2] == ("predict", "scaling") else 1
        code, text, errors = run(*words[:at], folder, *words[at:], "-o", "json")
        assert run(*words[:at], packed, *words[at:], "-o", "json") == (
            code, text.replace(str(folder), str(packed)), errors.replace(str(folder), str(packed)))  # fmt: skip
        assert "Usage" not in errors

    def test_compare(self, folder: Path, packed: Path):
        code, text, _ = run("compare", folder, packed, "-o", "json")
        assert code == 0
        assert json.loads(text)

    def test_report_goes_beside_the_file(self, packed: Path, tmp_path: Path):
        copy = shutil.copy(packed, tmp_path / "mine.zip")
        code, text, errors = run("report", copy, "--format", "md")
        assert (code, errors) == (0, "")
        assert (tmp_path / "mine-report" / "report.md").exists()
        assert "mine-report" in text


def rebuilt(packed: Path, path: Path, change: Callable[[dict[str, bytes]], None], reseal: bool = True) -> Path:
    """The packed file with other files in it; its digests fit them unless ``reseal`` is off."""
    with zipfile.ZipFile(packed) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    if reseal:
        sums = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items() if name != SUMS_FILE]
        files[SUMS_FILE] = "".join(sums).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def refused(path: Path) -> str:
    """The message of every door to a file that is no sound packed bundle: one line that names it."""
    with pytest.raises(BundleError) as error:
        open_bundle(path)
    with pytest.raises(BundleError):
        unpack(path, path.with_name("never"))
    assert not path.with_name("never").exists()
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert run("status", path)[::2] == (2, f"scalecurve: {message}\n")
    return message.removeprefix(f"{path}: ")


class TestDistrust:
    @pytest.mark.parametrize(
        "name",
        ["/etc/passwd", "../outside", "trials/../../outside", "trials//x", "trials/./x", "C:\\x", "trials/a\nb", " x"],
    )
    def test_unsafe_names(self, name: str, packed: Path, tmp_path: Path):
        path = rebuilt(packed, tmp_path / "b.zip", lambda files: files.update({name: b"x"}))
        assert "unsafe name" in refused(path)
        assert sorted(tmp_path.iterdir()) == [path]

    def test_a_name_that_is_a_file_and_a_folder(self, packed: Path, tmp_path: Path):
        path = rebuilt(packed, tmp_path / "b.zip", lambda files: files.update({"trials": b"x"}))
        assert "two files of the same name" in refused(path)

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_duplicates(self, packed: Path, tmp_path: Path):
        path = shutil.copy(packed, tmp_path / "b.zip")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("experiment.yaml", "another")
        assert "two files of the same name" in refused(path)

    def test_a_bomb(self, packed: Path, tmp_path: Path):
        """The directory says 4 GB; nothing of it is unpacked to find out."""
        data = bytearray(packed.read_bytes())
        entry = data.index(b"PK\x01\x02")
        struct.pack_into("<I", data, entry + 24, 4_000_000_000)
        (path := tmp_path / "b.zip").write_bytes(data)
        assert "more data than it can hold" in refused(path)

    def test_overlapping_entries(self, packed: Path, tmp_path: Path):
        """Each may be small; together they are more than the file."""
        data = bytearray(packed.read_bytes())
        at = -1
        while (at := data.find(b"PK\x01\x02", at + 1)) >= 0:
            struct.pack_into("<I", data, at + 20, len(data) // 2)
        (path := tmp_path / "b.zip").write_bytes(data)
        assert "more data than it can hold" in refused(path)

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_other_compression(self, method: int, packed: Path, tmp_path: Path):
        path = shutil.copy(packed, tmp_path / "b.zip")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("more", b"0" * 1_000_000, method)
        assert "more data than it can hold" in refused(path)

    def test_a_file_without_a_digest(self, packed: Path, tmp_path: Path):
        path = rebuilt(packed, tmp_path / "b.zip", lambda files: files.update(more=b"x"), reseal=False)
        assert refused(path).startswith(f"{SUMS_FILE}: more is not listed")

    def test_a_digest_without_a_file(self, packed: Path, tmp_path: Path):
        path = rebuilt(packed, tmp_path / "b.zip", lambda files: files.pop("experiment.yaml"), reseal=False)
        assert refused(path).startswith(f"{SUMS_FILE}: experiment.yaml is not in the archive")

    def test_digests_that_are_none(self, packed: Path, tmp_path: Path):
        for number, text in enumerate((b"hello\n", b"\xff\xfe", b"")):
            path = rebuilt(packed, tmp_path / f"{number}.zip", lambda f, t=text: f.update({SUMS_FILE: t}), reseal=False)
            assert refused(path).startswith(SUMS_FILE)

    def test_a_zip_of_something_else(self, tmp_path: Path):
        with zipfile.ZipFile(path := tmp_path / "b.zip", "w") as archive:
            archive.writestr("hello.txt", "hello")
        assert refused(path) == (f"no {SUMS_FILE}, so not written by `scalecurve pack`; unzip it and use the folder")

    def test_a_file_that_is_no_zip(self, tmp_path: Path):
        (path := tmp_path / "b.zip").write_text("hello")
        assert refused(path).startswith("is a file but not a packed bundle")

    @pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
    def test_truncated(self, kept: float, packed: Path, tmp_path: Path):
        data = packed.read_bytes()
        (path := tmp_path / "b.zip").write_bytes(data[: int(len(data) * kept)])
        assert "truncated" in refused(path)

    def test_a_changed_file_is_a_problem_of_that_file(self, packed: Path, tmp_path: Path):
        """As in a folder: the rest is still read."""
        record = "trials/weak-1-1x1-r1/trial.json"
        path = rebuilt(packed, tmp_path / "b.zip", lambda files: files.update({record: b"{}"}), reseal=False)
        (problem,) = open_bundle(path).problems
        assert (problem.file, problem.what.partition(":")[0]) == (record, f"does not match {SUMS_FILE}")
        with pytest.raises(BundleError, match=f"{record}: does not match {SUMS_FILE}"):
            unpack(path, tmp_path / "never")
        assert sorted(tmp_path.iterdir()) == [path]

    def test_a_damaged_file_is_a_problem_of_that_file(self, packed: Path, tmp_path: Path):
        data = bytearray(packed.read_bytes())
        with zipfile.ZipFile(packed) as archive:
            info = archive.getinfo("trials/weak-1-1x1-r1/trial.json")
        data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 1
        (path := tmp_path / "b.zip").write_bytes(data)
        (problem,) = open_bundle(path).problems
        assert (problem.file, problem.what) == (info.filename, "damaged in the packed file; copy it again")

    @settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(data=st.data())
    def test_any_damaged_byte(self, packed: Path, folder: Path, data: st.DataObject, tmp_path_factory):
        """It is noticed, or it changes nothing of what is read."""
        damaged = bytearray(packed.read_bytes())
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
        path = tmp_path_factory.mktemp("damaged") / "b.zip"
        path.write_bytes(damaged)
        try:
            bundle = open_bundle(path)
            problems = [*bundle.problems, *summarize_steps([bundle]).problems]
            unpacked = files_of(unpack(path, path.with_name("unpacked")))
        except BundleError as error:
            noticed = re.fullmatch(rf"{re.escape(str(path))}: .+", str(error)) is not None
        else:
            noticed = (problems, unpacked) == ([], records_of(folder))
        assert noticed


class TestPacking:
    def test_nothing_is_overwritten(self, folder: Path, packed: Path, tmp_path: Path):
        (there := tmp_path / "there.zip").write_text("mine")
        (tmp_path / "empty").mkdir()
        for refusal in (
            lambda: pack(folder, there),
            lambda: unpack(packed, there),
            lambda: unpack(packed, tmp_path / "empty"),
        ):
            with pytest.raises(BundleError, match="already exists; choose another with --out"):
                refusal()
        assert there.read_text() == "mine"

    def test_what_is_no_bundle(self, packed: Path, tmp_path: Path):
        (tmp_path / "file").write_text("x")
        (tmp_path / "folder").mkdir()
        for path, why in (
            (packed, "already packed"),
            (tmp_path / "file", "is a file"),
            (tmp_path / "folder", "not a bundle"),
            (tmp_path / "none", "no such"),
        ):
            with pytest.raises(BundleError, match=why):
                pack(path, tmp_path / "b.zip")
        assert not (tmp_path / "b.zip").exists()

    def test_a_link_is_not_followed(self, folder: Path, tmp_path: Path):
        copy = shutil.copytree(folder, tmp_path / "copy")
        (copy / "trials" / "weak-1-1x1-r1" / "logs" / "link").symlink_to("/etc/passwd")
        with pytest.raises(BundleError, match="logs/link: not a regular file"):
            pack(copy, tmp_path / "b.zip")
        (copy / "trials").rename(tmp_path / "elsewhere")
        (copy / "trials").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BundleError, match="copy/trials: not a folder, but a link"):
            pack(copy, tmp_path / "b.zip")
        assert not (tmp_path / "b.zip").exists()

    def test_a_full_disk_leaves_nothing_behind(self, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
        with pytest.raises(BundleError, match="10 free"):
            unpack(packed, tmp_path / "b")
        assert list(tmp_path.iterdir()) == []


class TestVerbs:
    def test_pack_and_unpack(self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        shutil.copytree(folder, tmp_path / "mine")
        monkeypatch.chdir(tmp_path)
        code, text, errors = run("pack", "mine", "-o", "json")
        assert (code, errors) == (0, "")
        (row,) = json.loads(text)["packed"]["rows"]
        assert (row["file"], row["records"]) == ("mine.zip", 4)
        assert row["sha256"] == hashlib.sha256(Path("mine.zip").read_bytes()).hexdigest()
        assert run("unpack", "mine.zip")[0] == 2
        assert run("unpack", "mine.zip", "--out", "again") == (0, "again\n", "")
        assert files_of(tmp_path / "again") == records_of(folder)

    def test_a_run_is_not_resumed_in_a_packed_file(self, packed: Path):
        code, _, errors = run("run", packed.parent / "bundle" / "experiment.yaml", "--bundle", packed, "--resume")
        assert (code, errors.count("\n")) == (2, 1)
        assert "scalecurve unpack" in errors
        assert str(packed) in errors
