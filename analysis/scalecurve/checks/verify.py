"""Is a bundle what an engine wrote? Its ledger, experiment, records and tables, and a signature of it all."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scalecurve.bundle.consistency import judge_again
from scalecurve.bundle.history import Claim
from scalecurve.bundle.open import CONSISTENCY, Bundle
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.steps import read_table
from scalecurve.render.notebook import OneTable
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.problem import printable
from scalecurve_api.text import count, few

_HOLDS = {True: "holds", False: "does not hold", None: "not known"}
NAMESPACE = "scalecurve"
_TIMEOUT_S = 30


@dataclass(frozen=True)
class Verified(OneTable):
    """What a bundle claims; ``digest`` of the ledger's last line stands for all of it and is what is signed."""

    claims: tuple[Claim, ...]
    digest: str | None

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the bundle."""
        return all(claim.holds is not False for claim in self.claims)

    def table(self) -> Table:
        return table_of(
            "claims",
            "What the bundle claims",
            self.claims,
            (
                (Column("claim", "Claim"), lambda claim: claim.what),
                (Column("holds", "Holds"), lambda claim: _HOLDS[claim.holds]),
                (Column("detail", "Detail"), lambda claim: claim.detail),
            ),
        )


def verify(bundle: Bundle) -> Verified:
    """Hold everything in a bundle against everything else in it; every table is read.

    Args:
        bundle: The bundle.

    Returns:
        What holds, what does not, and what cannot be told.
    """
    claims = list(bundle.claims)
    if not all(claim.holds is not None for claim in claims if claim.what == CONSISTENCY):
        again = judge_again(bundle.trials, tables=True)
        detail = few(again.contradictions, 3) or "windows, steps, summary and timeline of every trial agree"
        claims = [c for c in claims if c.what != CONSISTENCY]
        claims.append(Claim(CONSISTENCY, not again.contradictions, detail))
    return Verified((*claims, *_files(bundle)), bundle.ledger.digest if bundle.ledger else None)


def _files(bundle: Bundle) -> Iterator[Claim]:
    problems = [str(problem) for problem in bundle.problems]
    tables = 0
    for trial in bundle.trials:
        for name in sorted(trial.record.files if trial.record else ()):
            try:
                read_table(trial, name)
                tables += 1
            except FileError as error:
                problems.append(f"trials/{trial.folder.name}/{name}: {error}")
    detail = few(problems, 4) if problems else f"{count(tables, 'table')}, each with the digest in its record"
    yield Claim("files", not problems, detail)


class SshKeygenNotFoundError(Exception):
    """OpenSSH's ``ssh-keygen`` is not installed."""


def check_signature(digest: str | None, signature: Path, allowed_signers: Path) -> Claim:
    """Whether one of the allowed signers has signed this digest, with a newline behind it.

    Raises:
        SshKeygenNotFoundError: when there is nothing to check it with.
    """
    if (program := shutil.which("ssh-keygen")) is None:
        raise SshKeygenNotFoundError(
            "ssh-keygen is not installed: a signature cannot be checked without OpenSSH's client"
        )
    if digest is None:
        return Claim("signature", False, "there is no ledger that could have been signed")
    files = ["-f", str(allowed_signers), "-s", str(signature)]
    known = _run([program, "-Y", "find-principals", *files])
    signer = known.stdout.splitlines()[0].strip() if known.returncode == 0 and known.stdout.strip() else ""
    if not signer:
        return Claim("signature", False, f"of nobody in {allowed_signers}: {_last_line(known)}")
    checked = _run([program, "-Y", "verify", "-I", signer, "-n", NAMESPACE, *files], f"{digest}\n")
    if checked.returncode != 0:
        return Claim("signature", False, f"{signer} has not signed this ledger: {_last_line(checked)}")
    return Claim("signature", True, printable(f"{signer} has signed this ledger"))


def _run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_TIMEOUT_S} s")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return printable(lines[-1][:200]) if lines else f"ssh-keygen ended with {done.returncode}"
