"""Who signed a bundle: a signature of its ledger's last digest, made by ``ssh-keygen -Y sign`` and checked by it."""

import shutil
import subprocess
from pathlib import Path

from scalecurve.bundle.history import Claim
from scalecurve_api.problem import printable

NAMESPACE = "scalecurve"
_TIMEOUT_S = 30


class NoSshKeygen(Exception):
    """OpenSSH's ``ssh-keygen`` is not installed."""


def signed_by(digest: str | None, signature: Path, allowed_signers: Path) -> Claim:
    """Whether one of the allowed signers has signed this digest, with a newline behind it.

    Raises:
        NoSshKeygen: when there is nothing to check it with.
    """
    if (program := shutil.which("ssh-keygen")) is None:
        raise NoSshKeygen("ssh-keygen is not installed: a signature cannot be checked without OpenSSH's client")
    if digest is None:
        return Claim("signature", False, "there is no ledger that could have been signed")
    files = ["-f", str(allowed_signers), "-s", str(signature)]
    known = _run([program, "-Y", "find-principals", *files])
    signer = known.stdout.splitlines()[0].strip() if known.returncode == 0 and known.stdout.strip() else ""
    if not signer:
        return Claim("signature", False, f"of nobody in {allowed_signers}: {_said(known)}")
    checked = _run([program, "-Y", "verify", "-I", signer, "-n", NAMESPACE, *files], f"{digest}\n")
    if checked.returncode != 0:
        return Claim("signature", False, f"{signer} has not signed this ledger: {_said(checked)}")
    return Claim("signature", True, printable(f"{signer} has signed this ledger"))


def _run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {_TIMEOUT_S} s")


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return printable(lines[-1][:200]) if lines else f"ssh-keygen ended with {done.returncode}"
