"""``python -m scalecurve_worker.launch.sshd``: the worker pod of an MPIJob, in which mpirun starts ranks.

An ordinary user's sshd on port 2222: nothing here needs root or a capability, so Pod Security ``restricted`` admits it.
"""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from scalecurve_api.contract import POD_INDEX_ENV, POD_NAME_ENV
from scalecurve_worker.launch import ssh_keys
from scalecurve_worker.launch.init_process import KILLED, leave_termination, log, run_as_init
from scalecurve_worker.process.preflight import PreflightError, check_port, check_user, shared_memory

PORT_ENV = "SCALECURVE_SSH_PORT"
_PORT = 2222
_SSHD = ("/usr/sbin/sshd", "/usr/local/sbin/sshd")
# sshd sets these itself, or they belong to the process that starts it.
_NOT_PASSED_ON = ("HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "TERM", "MAIL", "_")
_POLL_S = 0.5
_SAY_AFTER_S = 15.0


def main(keys: str = ssh_keys.SSH_FOLDER) -> int:
    """Run sshd to its end; 1 after saying why not."""
    try:
        program = find_sshd()
        check_user("sshd")
        port = ssh_port(os.environ)
        check_port(port, "for sshd")
        folder = Path(tempfile.mkdtemp(prefix="scalecurve-sshd-"))
        config = prepare(folder, ssh_keys.find(Path(keys), folder, os.environ), port, os.environ)
    except (PreflightError, OSError) as error:
        log(str(error))
        leave_termination(str(error))
        return 1
    if warning := shared_memory():
        log(warning)
    # sshd executes itself anew for each connection, and wants its whole path for that.
    code = run_as_init([program, "-D", "-e", "-f", str(config)])
    if code == KILLED:
        leave_termination(
            "the kernel killed a process of this pod for exceeding the pod's memory limit, or sshd was killed"
        )
    return code


def ssh_port(environment: Mapping[str, str]) -> int:
    """Return the port on which the workers' sshd listens; pods on the host's network may need another."""
    text = environment.get(PORT_ENV, "")
    return int(text) if text.isdigit() else _PORT


def find_sshd() -> str:
    """Find the path of sshd.

    Raises:
        PreflightError: the image has none.
    """
    for path in (*_SSHD, shutil.which("sshd")):
        if path and os.access(path, os.X_OK):
            return path
    raise PreflightError("workers of an MPIJob need sshd (package openssh-server), which this image lacks")


def prepare(folder: Path, keys: Path, port: int, environment: Mapping[str, str]) -> Path:
    """Write host key and configuration into ``folder``; the path of the configuration."""
    for name in ("id_rsa", "authorized_keys"):
        if not (keys / name).is_file():
            raise PreflightError(f"{keys / name} is missing: mpi-operator mounts the job's keys at sshAuthMountPath")
    host_key = folder / "host_key"
    # Copied, for sshd refuses a key of its own user that others may read, and mounts have modes of their own.
    host_key.write_bytes((keys / "id_rsa").read_bytes())
    host_key.chmod(0o600)
    config = folder / "sshd_config"
    config.write_text(configuration(host_key, keys, folder / "sshd.pid", port, environment))
    return config


def configuration(host_key: Path, keys: Path, pid: Path, port: int, environment: Mapping[str, str]) -> str:
    """Render sshd's configuration: keys only, no root, and the container's own environment, as ssh passes none on."""
    lines = [
        f"Port {port}",
        f"HostKey {host_key}",
        f"AuthorizedKeysFile {keys / 'authorized_keys'}",
        f"PidFile {pid}",
        "PubkeyAuthentication yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "StrictModes no",
        "X11Forwarding no",
        "PrintMotd no",
        # mpirun connects to all workers at once, and a launcher may be asked to share one.
        "MaxStartups 512",
        "MaxSessions 512",
        "LogLevel ERROR",
    ]
    number = environment.get("JOB_COMPLETION_INDEX") or environment.get(POD_NAME_ENV, "").rpartition("-worker-")[2]
    if number.isdigit():
        environment = {**environment, POD_INDEX_ENV: number}
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"'})
    passed = [
        f'"{name}={value.translate(escapes)}"' for name, value in sorted(environment.items()) if _passes(name, value)
    ]
    if passed:
        # One line: sshd obeys the first SetEnv and ignores further ones.
        lines.append("SetEnv " + " ".join(passed))
    return "\n".join(lines) + "\n"


def wait_for_workers(hostfile: Path, port: int) -> None:
    """Return when the sshd of every worker answers.

    mpi-operator's WaitForWorkersReady does not hold under a queue, where a suspended job has no workers and all of
    them count as ready; and mpirun gives up at the first that does not answer. The job's deadline ends a vain wait.
    """
    waiting = [line.split()[0].partition(":")[0] for line in hostfile.read_text().splitlines() if line.strip()]
    say_at = time.monotonic() + _SAY_AFTER_S
    while waiting := [host for host in waiting if not _answers(host, port)]:
        if time.monotonic() > say_at:
            more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
            log(f"waiting for {', '.join(waiting[:3])}{more}")
            say_at = time.monotonic() + 4 * _SAY_AFTER_S
        time.sleep(_POLL_S)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:  # a name that does not resolve yet is one too
        return False
    return True


def _passes(name: str, value: str) -> bool:
    return name.replace("_", "a").isalnum() and name not in _NOT_PASSED_ON and not (set(value) & set("\n\r\0"))


if __name__ == "__main__":
    sys.exit(main())
