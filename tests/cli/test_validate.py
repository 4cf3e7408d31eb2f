"""``scalecurve validate`` on files as people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve.checks.validation import validate

from .conftest import Desk


@pytest.fixture
def files(desk: Desk) -> dict[str, Path]:
    good = desk.write("good.yaml")
    texts = {
        "typo.yaml": good.read_text().replace("workers:", "workes:").encode(),
        "latin.yaml": good.read_text().replace("desk", "dösk").encode("latin-1"),
        "empty.yaml": b"",
        "dashes.yaml": b"---\n---\n",
        "two.yaml": good.read_bytes() + b"---\n" + good.read_bytes().replace(b"name: desk", b"name: other"),
        "half.yaml": good.read_bytes() + b"---\n" + good.read_bytes().replace(b"name: desk", b"name: Other"),
    }
    for name, data in texts.items():
        (desk.folder / name).write_bytes(data)
    return {path.name: path for path in desk.folder.iterdir()}


def test_good_files_are_named_with_their_experiments(desk: Desk, files: dict[str, Path]):
    ran = desk("validate", "good.yaml", "two.yaml", code=0)
    assert ran.out == "good.yaml: ok (desk)\ntwo.yaml: ok (desk, other)\n"
    assert desk.here("validate", "good.yaml", "-o", "json", code=0).json["valid"] is True
    assert desk.here("validate", "good.yaml", "-o", "csv", code=0).rows == []


def test_every_file_is_judged_whatever_the_others_are(desk: Desk, files: dict[str, Path]):
    (desk.folder / "folder").mkdir()
    bad = ["absent.yaml", "typo.yaml", "latin.yaml", "folder", "empty.yaml", "dashes.yaml", "half.yaml", "-"]
    ran = desk("validate", *bad, "/dev/zero", "good.yaml", code=2)
    lines = ran.out.splitlines()
    for said in (
        "absent.yaml: no such file; expected a YAML file",
        "latin.yaml: got no UTF-8 text (byte ",
        "folder: got a folder; expected",
        "empty.yaml: document: got an empty file; expected a ScalingExperiment",
        "dashes.yaml: document: got an empty",
        "-: got standard input, which is not read",
        "/dev/zero: got more than 4194304 bytes",
        "good.yaml: ok (desk)",
    ):
        assert any(line.startswith(said) for line in lines), f"{said} in {ran.out}"
    (typo,) = (line for line in lines if "workes" in line)
    assert typo.startswith("typo.yaml:9: spec.scaling.workes: ")
    assert typo.endswith("; did you mean 'workers'?")
    (half,) = (line for line in lines if line.startswith("half.yaml"))
    assert "metadata.name" in half


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_forms_for_programs_hold_every_problem(desk: Desk, files: dict[str, Path], form: str):
    ran = desk.here("validate", "typo.yaml", "absent.yaml", "-o", form, code=2)
    if form == "json":
        rows = ran.json["problems"]["rows"]
        assert ran.json["valid"] is False
    elif form == "csv":
        rows = ran.rows
    else:
        assert ran.out.count("\n| typo.yaml | ") == 1
        assert ran.out.count("\n| absent.yaml | ") == 1
        return
    assert [row["file"] for row in rows] == ["typo.yaml", "absent.yaml"]
    assert (rows[0]["field"], rows[0]["code"]) == ("spec.scaling.workes", "Unknown")
    assert rows[0]["suggestion"] == "workers"


HOSTILE = [
    "../../escape",
    "/etc/passwd",
    "..",
    "",
    "-rf",
    "a b; rm -rf x",
    "$(id)",
    "Ü" * 3,
    "a" * 100_000,
    "\x1b[2Jname",
    "a\u202eb",
    "line\nbreak",
    "{0}",
    "%s",
]


def test_hostile_names_are_refused_and_cannot_speak_to_the_terminal(desk: Desk):
    files = [desk.write(f"{number}.yaml", name=name) for number, name in enumerate(HOSTILE)]
    before = sorted(desk.folder.parent.iterdir())
    ran = desk("validate", *files, code=2)
    assert ran.out.count(": metadata.name: got ") == len(ran.out.splitlines()) == len(HOSTILE)
    assert "\u202e" not in ran.out
    assert max(map(len, ran.out.splitlines())) < 1000
    for file in files[:3]:
        assert "metadata.name" in desk.here("run", file, code=2).err
    assert sorted(desk.folder.parent.iterdir()) == before
    assert sorted(desk.folder.iterdir()) == sorted(files)


def test_a_file_name_cannot_speak_to_the_terminal_either(desk: Desk):
    names = ["we ird\x1b[31m.yaml", "line\nbreak.yaml", "\udcff.yaml"]
    for name in names:
        desk.write(name)
    ran = desk("validate", *names, code=0)
    assert len(ran.out.splitlines()) == 3
    desk.here("status", names[0], code=2)
    desk.here("plan", "absent\x1b[31m.yaml", code=2)


def test_the_python_function_says_the_same(desk: Desk, files: dict[str, Path]):
    typo, two = validate([files["typo.yaml"], files["two.yaml"]])
    assert [problem.field for problem in typo.problems] == ["spec.scaling.workes"]
    assert [experiment.metadata.name for experiment in two.experiments] == ["desk", "other"]
    assert two.text == files["two.yaml"].read_text()
