"""Run a command in a network namespace of its own, where one port leads to a server outside.

mpi-operator listens for health checks on port 8080, which no flag changes, and ends when that is taken: two on one
machine need two namespaces. Nothing in one can be reached from outside, and nothing outside from within, but for the
one relayed port. No virtual interface, address or route is made: a socket belongs to the namespace it was made in, so
this process serves a listener that its child made inside, and connects to the server outside.

    python own_network.py ADDRESS:PORT COMMAND...    of the server outside; inside it is at 127.0.0.1:PORT

Needs Linux; where unshare(2) of a network needs more rights than there are, it is tried within a user namespace.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Move this process into a fresh network namespace with loopback up. Raises OSError where that is not allowed."""
    if _LIBC.unshare(_CLONE_NEWNET) and _LIBC.unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace of its own: unshare(CLONE_NEWNET) is not allowed")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


async def relay(listener: socket.socket, address: str, port: int) -> None:
    """Carry bytes between every connection to `listener` and the server that this namespace reaches, for ever."""

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def carry(inner: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            outer, forth = await asyncio.open_connection(address, port)
        except OSError:
            back.close()
            return
        await asyncio.gather(one_way(inner, forth), one_way(outer, back))

    server = await asyncio.start_server(carry, sock=listener)
    await server.serve_forever()


def main(server: str, command: list[str]) -> int:
    address, port = server.rpartition(":")[0], int(server.rpartition(":")[2])
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        enter()
        listener = socket.create_server(("127.0.0.1", port))
        socket.send_fds(theirs, [b"."], [listener.fileno()])
        os.execvp(command[0], command)
    theirs.close()
    _, sent, _, _ = socket.recv_fds(ours, 1, 1)
    if not sent:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or 1
    listener = socket.socket(fileno=sent[0])
    signal.signal(signal.SIGCHLD, lambda *_: _end_with(child))
    _end_with(child)
    asyncio.run(relay(listener, address, port))
    return 0


def _end_with(child: int) -> None:
    """Exit as the child did, if it did."""
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        os._exit(abs(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
