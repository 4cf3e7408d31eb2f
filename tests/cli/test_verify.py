"""``scalecurve verify``: a bundle holds as it was written, and whatever is changed in it is named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Desk

R1, R2 = "weak-2-1x2-r1", "weak-2-1x2-r2"


@pytest.fixture
def copy(desk: Desk, bundle: Path) -> Path:
    return Path(shutil.copytree(bundle, desk.folder / "copy"))


def claims(desk: Desk, bundle: Path, code: int) -> dict[str, tuple[str, str]]:
    tree = desk.here("verify", bundle, "-o", "json", code=code).json
    assert tree["holds"] is (code == 0)
    return {row["claim"]: (row["holds"], row["detail"]) for row in tree["claims"]["rows"]}


def test_a_bundle_as_it_was_written_holds(desk: Desk, bundle: Path):
    assert {holds for holds, _ in claims(desk, bundle, 0).values()} == {"holds"}
    desk.here("pack", bundle, "--out", "packed.zip", code=0)
    packed = desk.here("verify", "packed.zip", "-o", "json", code=0).json
    assert packed == desk.here("verify", bundle, "-o", "json", code=0).json
    assert len(packed["digest"]) == 64


def edit_experiment(old: str, new: str) -> Callable[[Path], None]:
    def edit(bundle: Path) -> None:
        file = bundle / "experiment.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return edit


def drop_repetition(bundle: Path) -> None:
    edit_experiment("repetitions: 2", "repetitions: 1")(bundle)
    for trial in (R2, "weak-1-1x1-r2"):
        shutil.rmtree(bundle / "trials" / trial)


def drop_trial(bundle: Path) -> None:
    shutil.rmtree(bundle / "trials" / R1)


def drop_ledger(bundle: Path) -> None:
    (bundle / "ledger.jsonl").unlink()


def drop_line(bundle: Path) -> None:
    lines = (bundle / "ledger.jsonl").read_text().splitlines(keepends=True)
    (bundle / "ledger.jsonl").write_text("".join(lines[:2] + lines[3:]))


def edit_line(bundle: Path) -> None:
    file = bundle / "ledger.jsonl"
    file.write_text(file.read_text().replace('"Succeeded"', '"Failed"', 1))


def foreign_line(bundle: Path) -> None:
    with (bundle / "ledger.jsonl").open("a") as file:
        file.write("[[[[1e999\n")


EDITS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "windows": (edit_experiment("windows: 2", "windows: 1"), "experiment", "experiment.yaml was changed after "),
    "warm-up": (edit_experiment("warmupSteps: 3", "warmupSteps: 2"), "experiment", "repetitions or workload differ"),
    "price": (
        lambda bundle: edit_experiment("spec:", "spec:\n  cost: {perWorkerHour: 0.5}")(bundle),
        "experiment",
        "price, windows, repetitions or workload differ",
    ),
    "comment": (edit_experiment("spec:", "# mine\nspec:"), "experiment", "the trials that it plans are the same"),
    "repetitions": (drop_repetition, "experiment", "price, windows, repetitions or workload differ"),
    "repetition": (drop_repetition, "records", f"the record of weak-1-1x1-r2, {R2} is missing"),
    "trial": (drop_trial, "records", f"the record of {R1} is missing"),
    "ledger": (drop_ledger, "ledger", "names an entry of it: it was removed"),
    "line": (drop_line, "ledger", "line 3 (attempt-ended) does not follow the line before it: one is missing"),
    "phase": (edit_line, "ledger", "line 4 (attempt-ended) does not match its digest"),
    "junk": (foreign_line, "ledger", "line 11 is not an entry of a ledger"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_changed_is_named_and_stands_in_every_verb(desk: Desk, copy: Path, edit: str):
    change, claim, text = EDITS[edit]
    change(copy)
    holds, detail = claims(desk, copy, 1)[claim]
    assert holds == "does not hold"
    assert text in detail
    for verb in ("status", "cost", "diagnose"):
        assert f"{claim}: {detail}" in desk.here(verb, copy, code=0).err


def test_a_trial_that_was_rolled_again_is_shown(desk: Desk, bundle: Path, copy: Path):
    drop_trial(copy)
    ran = desk.here("run", bundle.parent / "finished.yaml", "--bundle", copy, "--resume", "-q", code=0)
    assert f"attempts: {R1} was run again: " in ran.err, "its own table says so, too"
    holds, detail = claims(desk, copy, 1)["attempts"]
    assert holds == "does not hold"
    assert detail.startswith(f"{R1} was run again: attempt 1 (Succeeded, ")
    assert json.loads((copy / "trials" / R1 / "trial.json").read_text())["attempt"] == 2


def test_a_record_exchanged_for_another_is_named(desk: Desk, bundle: Path, copy: Path):
    drop_trial(copy)
    desk.here("run", bundle.parent / "finished.yaml", "--bundle", copy, "--resume", "-q", code=0)
    again = copy / "trials" / R1
    shutil.rmtree(again)
    shutil.copytree(bundle / "trials" / R1, again)
    assert claims(desk, copy, 1)["records"] == (
        "does not hold",
        f"the record of {R1} is not the one that was recorded",
    )


def test_a_bundle_of_before_the_ledger_is_said_to_be_without(desk: Desk):
    old = Path(__file__).parent.parent / "fixtures" / "resnet50-h200.zip"
    assert claims(desk, old, 0)["ledger"] == (
        "not known",
        "no ledger.jsonl: what was thrown away or changed since is not known",
    )
    assert desk.here("status", old, code=0).err == ""
    desk.here("verify", desk.folder, code=2)


def sign(desk: Desk, bundle: Path, signer: str) -> Path:
    """A new key of this signer signs the bundle, as the how-to page says."""
    key, signature = desk.folder / f"{signer}-key", desk.folder / f"{signer}.sig"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with (desk.folder / "allowed").open("a") as allowed:
        allowed.write(f"{signer}@example.org {key.with_suffix('.pub').read_text()}")
    digest = desk.here("verify", bundle, "--digest", code=0).out
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "scalecurve", "-f", key]
    signed = subprocess.run(command, input=digest, capture_output=True, text=True, check=True)
    signature.write_text(signed.stdout)
    return signature


def test_a_signature_names_its_signer_and_holds_for_one_ledger_alone(desk: Desk, bundle: Path, copy: Path):
    signature = sign(desk, bundle, "ann")
    words = ("--signature", signature, "--allowed-signers", desk.folder / "allowed")
    desk.here("pack", bundle, "--out", "packed.zip", code=0)
    for there in (bundle, "packed.zip"):
        out = desk.here("verify", there, *words, code=0).out
        assert "ann@example.org has signed this ledger" in out
    (copy / "ledger.jsonl").write_text("".join((copy / "ledger.jsonl").read_text().splitlines(keepends=True)[:-1]))
    out = desk.here("verify", copy, *words, code=1).out
    assert "ann@example.org has not signed this ledger: " in out


def test_a_signature_of_somebody_else_does_not_hold(desk: Desk, bundle: Path):
    signature = sign(desk, bundle, "eve")
    (desk.folder / "allowed").unlink()
    sign(desk, bundle, "ann")
    words = ("--signature", signature, "--allowed-signers", desk.folder / "allowed")
    assert "of nobody in " in desk.here("verify", bundle, *words, code=1).out
    signature.write_text("no signature\n")
    assert "of nobody in " in desk.here("verify", bundle, *words, code=1).out


def test_what_a_signature_needs_is_said(desk: Desk, bundle: Path, copy: Path, monkeypatch: pytest.MonkeyPatch):
    signature = sign(desk, bundle, "ann")
    assert "go together" in desk.here("verify", bundle, "--signature", signature, code=2).err
    missing = desk.here("verify", bundle, "--signature", "none.sig", "--allowed-signers", signature, code=2)
    assert "none.sig" in missing.err
    drop_trial(copy)
    assert "does not hold" in desk.here("verify", copy, "--digest", code=1).out
    monkeypatch.setenv("PATH", str(desk.folder))
    words = ("--signature", signature, "--allowed-signers", desk.folder / "allowed")
    assert "ssh-keygen is not installed" in desk.here("verify", bundle, *words, code=3).err
