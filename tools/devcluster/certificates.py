"""A certificate authority of one test run, made with the openssl command, 3.0 or newer: that saves a dependency."""

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

from tools.devcluster.components import output


class Authority:
    """Signs certificates into one folder; `ca.crt` and `ca.key` are its own, `sa.key` signs service account tokens."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.crt = folder, folder / "ca.crt"
        _sign(self.crt, "/CN=test-ca", ["basicConstraints=critical,CA:TRUE"])
        _ec_key(folder / "sa.key")
        output("openssl", "ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")

    def certificate(self, name: str, subject: str, alternatives: str = "") -> Path:
        """`name`.crt and `name`.key, for clients and servers; the path of the former. `alternatives` as IP:…,DNS:…"""
        extensions = ["extendedKeyUsage=serverAuth,clientAuth", "keyUsage=digitalSignature"]
        if alternatives:
            extensions.append(f"subjectAltName={alternatives}")
        return _sign(self.folder / f"{name}.crt", subject, extensions, self.crt)

    def kubeconfig(self, path: Path, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig whose client certificate says who `user` is; its path."""
        subject = "".join(f"/O={_escape_name(group)}" for group in groups) + f"/CN={_escape_name(user)}"
        crt = self.certificate(re.sub(r"[^a-zA-Z0-9.-]+", "-", f"client-{path.stem}"), subject)
        cluster = {"server": server, "certificate-authority-data": _base64(self.crt)}
        pair = {"client-certificate-data": _base64(crt), "client-key-data": _base64(crt.with_suffix(".key"))}
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tier", "cluster": cluster}],
            "users": [{"name": "user", "user": pair}],
            "contexts": [{"name": "tier", "context": {"cluster": "tier", "user": "user"}}],
            "current-context": "tier",
        }
        path.write_text(json.dumps(written, indent=1))  # every JSON document is YAML
        path.chmod(0o600)
        return path


def webhook_pair(folder: Path, name: str, authority: str) -> dict[str, str]:
    """tls.crt, tls.key, ca.crt and ca.key in `folder`, for a webhook whose certificates cert-controller rotates; their
    content in base64.

    That rotator (open-policy-agent/cert-controller) replaces a pair unless the authority carries its own name as a DNS
    name, both keys are RSA in PKCS#1 form, and the certificate is for the service's DNS name; ours is for 127.0.0.1
    too, so no Service is needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca, tls = folder / "ca.crt", folder / "tls.crt"
    for crt in (ca, tls):
        output("openssl", "genrsa", "-traditional", "-out", crt.with_suffix(".key"), "2048")
    _sign(ca, f"/CN={authority}", [f"subjectAltName=DNS:{authority}", "basicConstraints=critical,CA:TRUE"])
    served = ["extendedKeyUsage=serverAuth", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
    _sign(tls, f"/CN={name}", served, ca)
    return {file.name: _base64(file) for crt in (ca, tls) for file in (crt, crt.with_suffix(".key"))}


def _sign(crt: Path, subject: str, extensions: Sequence[str], signer: Path | None = None) -> Path:
    """A certificate for the key beside it, which is made where there is none; self-signed without a signer."""
    key = crt.with_suffix(".key")
    if not key.exists():
        _ec_key(key)
    # Without a configuration of our own, the system's would add extensions such as CA:TRUE to every certificate.
    config = crt.with_name("openssl.cnf")
    if not config.exists():
        config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
    by = ["-CA", f"{signer}", "-CAkey", f"{signer.with_suffix('.key')}"] if signer else []
    added = [part for extension in extensions for part in ("-addext", extension)]
    output(
        "openssl", "req", "-x509", "-config", config, "-days", "3650", "-subj", subject, "-key", key, *by, *added,
        "-out", crt,
    )  # fmt: skip
    return crt


def _ec_key(file: Path) -> None:
    output("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file)


def _escape_name(name: str) -> str:
    return name.replace("\\", "\\\\").replace("/", "\\/").replace("+", "\\+")


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
