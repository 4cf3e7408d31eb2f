from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalecurve_worker.launch import sshd
from scalecurve_worker.process.preflight import PreflightError
from tests.waiting import PATIENCE_S, consistently


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "id_rsa").write_text("private")
    (folder / "id_rsa").chmod(0o644)
    (folder / "authorized_keys").write_text("public")
    return folder


def test_the_configuration_hands_the_pods_environment_on(keys: Path, tmp_path: Path) -> None:
    environment = {
        "POD_NAME": "trial-a1-worker-12",
        "NODE_NAME": "n1",
        "PATH": "/opt/bin:/bin",
        "QUOTED": 'a "b" \\c',
        "LINES": "a\nb",
        "HOME": "/root",
        "not a name": "x",
    }
    config = sshd.prepare(tmp_path, keys, 2222, environment)
    lines = config.read_text().splitlines()
    assert "Port 2222" in lines
    assert f"AuthorizedKeysFile {keys}/authorized_keys" in lines
    assert (tmp_path / "host_key").stat().st_mode & 0o777 == 0o600
    assert lines[-1] == (
        'SetEnv "NODE_NAME=n1" "PATH=/opt/bin:/bin" "POD_NAME=trial-a1-worker-12" "QUOTED=a \\"b\\" \\\\c" '
        '"SCALECURVE_POD_INDEX=12"'
    )


def test_missing_keys_are_named(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"id_rsa is missing: mpi-operator mounts"):
        sshd.prepare(tmp_path, tmp_path, 2222, {})


def test_an_image_without_sshd_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALECURVE_TERMINATION_LOG", str(tmp_path / "log"))
    monkeypatch.setattr(sshd, "_SSHD", ())
    monkeypatch.setenv("PATH", "/nowhere")
    assert sshd.main() == 1
    assert "need sshd (package openssh-server), which this image lacks" in capsys.readouterr().err


def test_workers_are_waited_for(tmp_path: Path) -> None:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        hosts = tmp_path / "hostfile"
        hosts.write_text("127.0.0.1 slots=2\n\nlocalhost:2\n")
        waiting = threading.Thread(target=sshd.wait_for_workers, args=(hosts, port), daemon=True)
        waiting.start()
        consistently(waiting.is_alive, "a port that is bound, and does not listen yet, is waited for", 0.2)
        first.listen()
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()


def test_a_real_sshd_takes_the_configuration(tmp_path: Path) -> None:
    try:
        program = sshd.find_sshd()
    except PreflightError as error:
        pytest.skip(str(error))
    if os.getuid() == 0 and not Path("/run/sshd").exists():
        pytest.skip("as root sshd wants /run/sshd, which pods' sshd does without")
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen to make keys with")
    made = tmp_path / "id_rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(made)], check=True)
    (tmp_path / "authorized_keys").write_bytes((tmp_path / "id_rsa.pub").read_bytes())
    folder = tmp_path / "run"
    folder.mkdir()
    config = sshd.prepare(folder, tmp_path, 2222, {**os.environ, "JSON": '{"a": "b c", "d": "\\\\"}'})
    done = subprocess.run([program, "-t", "-f", str(config)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


def test_sshd_says_that_its_port_is_taken(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sshd, "find_sshd", lambda: "/usr/sbin/sshd")
    monkeypatch.setenv(sshd.PORT_ENV, str(taken))
    monkeypatch.setenv("SCALECURVE_TERMINATION_LOG", str(tmp_path / "log"))
    assert sshd.main(str(tmp_path)) == 1
    assert f"scalecurve: port {taken}, for sshd, is in use" in capsys.readouterr().err
    assert (tmp_path / "log").read_text().startswith(f"port {taken}, for sshd")


def test_sshd_says_that_its_user_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.setattr(sshd, "find_sshd", lambda: "/usr/sbin/sshd")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.setenv("SCALECURVE_TERMINATION_LOG", str(tmp_path / "log"))
    assert sshd.main(str(tmp_path)) == 1
    assert f"no user with ID {os.getuid()}; sshd needs an entry for it in /etc/passwd" in capsys.readouterr().err
