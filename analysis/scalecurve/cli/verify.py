"""``scalecurve verify BUNDLE``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import fail, output_option, show

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("verify")
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--signature", type=_FILE, help="Signature of the ledger's last digest, made by `ssh-keygen -Y sign`.")
@click.option("--allowed-signers", type=_FILE, help="Who may have signed, as in `man ssh-keygen`.")
@click.option("--digest", "only_digest", is_flag=True, help="Print only the ledger's last digest: what is signed.")
@output_option
def command(bundle: Path, signature: Path | None, allowed_signers: Path | None, only_digest: bool, output: str) -> None:
    """Check that a BUNDLE is as it was written: its ledger, experiment, records and tables against each other.

    Exit code 0 if nothing contradicts it, 1 if something does, 2 if it is no bundle. Who rewrites a whole ledger has a
    sound one again; only a signature shows that.
    """
    from scalecurve.checks.verify import SshKeygenNotFoundError, check_signature, verify

    if (signature is None) != (allowed_signers is None):
        fail("--signature and --allowed-signers go together", EXIT_INPUT)
    (opened,) = open_all([bundle])
    verified = verify(opened)
    if signature is not None and allowed_signers is not None:
        try:
            claim = check_signature(verified.digest, signature, allowed_signers)
        except SshKeygenNotFoundError as error:
            fail(str(error), EXIT_ENVIRONMENT)
        verified = replace(verified, claims=(*verified.claims, claim))
    if only_digest and verified.holds and verified.digest:
        click.echo(verified.digest)
        return
    if only_digest and not verified.digest:
        fail(f"{bundle}: has no ledger, so there is no digest to sign", EXIT_FAILED)
    show([verified.table()], output, {"holds": verified.holds, "digest": verified.digest})
    sys.exit(0 if verified.holds else EXIT_FAILED)
