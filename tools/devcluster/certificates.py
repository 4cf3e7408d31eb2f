"""A certificate authority of one test run, made with the openssl command, 3.0 or newer: that saves a dependency."""

import base64
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

_DAYS = "3650"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def _openssl(*arguments: str | Path) -> str:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]} exited with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Authority:
    """Signs certificates into one folder; `ca.crt` and `ca.key` are its own, `sa.key` signs service account tokens."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.crt, self.key = folder / "ca.crt", folder / "ca.key"
        # Without a configuration of our own, the system's would add extensions such as CA:TRUE to every certificate.
        self._config = folder / "openssl.cnf"
        self._config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
        self._sign(self.crt, self.key, "/CN=test-ca", ["basicConstraints=critical,CA:TRUE"], _CURVE)
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / "sa.key")
        _openssl("ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub")

    def certificate(self, name: str, subject: str, alternatives: str = "") -> Path:
        """`name`.crt and `name`.key, for clients and servers; the path of the former. `alternatives` as IP:…,DNS:…"""
        extensions = ["extendedKeyUsage=serverAuth,clientAuth", "keyUsage=digitalSignature"]
        if alternatives:
            extensions.append(f"subjectAltName={alternatives}")
        path = self.folder / f"{name}.crt"
        self._sign(path, path.with_suffix(".key"), subject, extensions, _CURVE, ("-CA", self.crt, "-CAkey", self.key))
        return path

    def kubeconfig(self, path: Path, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig whose client certificate says who `user` is; its path."""
        subject = "".join(f"/O={_escaped(group)}" for group in groups) + f"/CN={_escaped(user)}"
        crt = self.certificate(re.sub(r"[^a-zA-Z0-9.-]+", "-", f"client-{path.stem}"), subject)
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "tier", "cluster": {"server": server, "certificate-authority-data": _base64(self.crt)}}
            ],
            "users": [
                {
                    "name": "user",
                    "user": {
                        "client-certificate-data": _base64(crt),
                        "client-key-data": _base64(crt.with_suffix(".key")),
                    },
                }
            ],
            "contexts": [{"name": "tier", "context": {"cluster": "tier", "user": "user"}}],
            "current-context": "tier",
        }
        path.write_text(json.dumps(written, indent=1))  # every JSON document is YAML
        path.chmod(0o600)
        return path

    def _sign(
        self,
        crt: Path,
        key: Path,
        subject: str,
        extensions: Sequence[str],
        kind: Sequence[str],
        signer: Sequence[str | Path] = (),
    ) -> None:
        added = [part for extension in extensions for part in ("-addext", extension)]
        _openssl(
            "req", "-x509", "-config", self._config, "-noenc", "-days", _DAYS, "-subj", subject, *kind, *signer, *added,
            "-keyout", key, "-out", crt,
        )  # fmt: skip


def webhook_pair(folder: Path, name: str, authority: str) -> dict[str, bytes]:
    """tls.crt, tls.key, ca.crt and ca.key for a webhook whose certificates open-policy-agent/cert-controller rotates.

    That rotator replaces a pair unless the authority carries its own name as a DNS name, both keys are RSA in PKCS#1
    form, and the certificate is for the service's DNS name; ours is for 127.0.0.1 too, so no Service is needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
    ca = (folder / "ca.crt", folder / "ca.key")
    tls = (folder / "tls.crt", folder / "tls.key")
    pairs: tuple[tuple[Path, Path, str, list[str], list[str | Path]], ...] = (
        (*ca, authority, [f"subjectAltName=DNS:{authority}", "basicConstraints=critical,CA:TRUE"], []),
        (*tls, name, ["extendedKeyUsage=serverAuth", f"subjectAltName=DNS:{name},IP:127.0.0.1"],
         ["-CA", ca[0], "-CAkey", ca[1]]),
    )  # fmt: skip
    for crt, key, common, extensions, signer in pairs:
        _openssl("genrsa", "-traditional", "-out", key, "2048")
        added = [part for extension in extensions for part in ("-addext", extension)]
        _openssl(
            "req", "-x509", "-config", config, "-key", key, "-days", _DAYS, "-subj", f"/CN={common}",
            *signer, *added, "-out", crt,
        )  # fmt: skip
    return {path.name: path.read_bytes() for path in (*tls, *ca)}


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("/", "\\/").replace("+", "\\+")


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
