"""The SSH key of an MPI job: mpi-operator's, or one that every pod derives from the attempt's secret.

mpi-operator makes a key pair and mounts it. Elsewhere nobody does, and our operator has no right to Secrets: so
launcher and workers derive the same Ed25519 pair (RFC 8032, section 5.1.5) from what they share anyway. It serves one
attempt, between pods that all hold the secret; so the arithmetic need not run in constant time.
"""

import base64
import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from scalecurve_api.contract import SECRET_ENV

SSH_FOLDER = "/home/mpiuser/.ssh"
"""Where mpi-operator mounts the job's keys (``sshAuthMountPath``)."""
KEY_ENV = "SCALECURVE_SSH_KEY"
"""Path of the key that mpirun's ssh uses; unset is mpi-operator's."""
_KIND = b"ssh-ed25519"
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202

_Point = tuple[int, int, int, int]  # extended homogeneous coordinates X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z


def find(mounted: Path, folder: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder with ``id_rsa`` and ``authorized_keys``: the mounted one, or ``folder`` with derived ones."""
    secret = environment.get(SECRET_ENV, "")
    if (mounted / "id_rsa").exists() or not secret:
        return mounted
    private, public = key_pair(hashlib.sha256(b"scalecurve ssh key\0" + secret.encode()).digest())
    # Called as mpi-operator's is: ssh reads the kind from the file.
    for name, text in (("id_rsa", private), ("authorized_keys", public)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    return folder


def key_pair(seed: bytes) -> tuple[str, str]:
    """Derive a private key in OpenSSH's format, and the line of authorized_keys, from a seed of 32 bytes."""
    public = _public(seed)
    blob = _string(_KIND) + _string(public)
    private = os.urandom(4) * 2 + blob + _string(seed + public) + _string(b"scalecurve")
    private += bytes(range(1, 1 + -len(private) % 8))
    parts = _string(b"none") * 2 + _string(b"") + struct.pack(">I", 1) + _string(blob) + _string(private)
    text = base64.encodebytes(b"openssh-key-v1\0" + parts).decode()
    framed = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}-----END OPENSSH PRIVATE KEY-----\n"
    return framed, f"{_KIND.decode()} {base64.b64encode(blob).decode()} scalecurve\n"


def _public(seed: bytes) -> bytes:
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    scalar = scalar & ((1 << 254) - 8) | (1 << 254)
    point: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)
    total: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = _add(total, point)
        point, scalar = _add(point, point), scalar >> 1
    inverse = pow(total[2], -1, _P)
    x, y = total[0] * inverse % _P, total[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _add(left: _Point, right: _Point) -> _Point:
    """RFC 8032, section 5.1.4."""
    a, b = (left[1] - left[0]) * (right[1] - right[0]), (left[1] + left[0]) * (right[1] + right[0])
    c, d = 2 * left[3] * right[3] * _D, 2 * left[2] * right[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
