"""SSH keys that every pod of an attempt derives alike."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from scalecurve_worker.launch import ssh_keys

# RFC 8032, section 7.1, TEST 1 and TEST 2
VECTORS = {
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    ),
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    ),
}


@pytest.mark.parametrize("seed", VECTORS)
def test_the_public_key_is_that_of_the_standard(seed: str) -> None:
    _, public = ssh_keys.key_pair(bytes.fromhex(seed))
    assert base64.b64decode(public.split()[1])[-32:].hex() == VECTORS[seed]


def test_openssh_reads_the_private_key(tmp_path: Path) -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen to read keys with")
    folder = ssh_keys.find(tmp_path / "none", tmp_path, {"SCALECURVE_SECRET": "shared"})
    command = ["ssh-keygen", "-y", "-f", str(folder / "id_rsa")]
    public = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert public == (folder / "authorized_keys").read_text()
    assert (folder / "id_rsa").stat().st_mode & 0o777 == 0o600


def test_pods_of_one_attempt_derive_one_key(tmp_path: Path) -> None:
    made = {}
    for name, secret in (("a", "one"), ("b", "one"), ("c", "other")):
        (tmp_path / name).mkdir()
        folder = ssh_keys.find(tmp_path / "none", tmp_path / name, {"SCALECURVE_SECRET": secret})
        made[name] = (folder / "authorized_keys").read_text()
    assert made["a"] == made["b"] != made["c"]


def test_what_is_mounted_is_used(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").touch()
    assert ssh_keys.find(tmp_path, tmp_path / "other", {"SCALECURVE_SECRET": "s"}) == tmp_path
    assert ssh_keys.find(tmp_path / "none", tmp_path, {}) == tmp_path / "none", "nothing to derive it from"
