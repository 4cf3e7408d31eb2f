"""How two processes of a trial recognize each other before either believes a word: HMAC-SHA256 over fresh nonces.

Rank 0 says 16 random bytes; the other answers with its rank, 16 random bytes of its own and the code of both; rank 0
answers with its code. The key, the trial's name with the attempt's secret, is never sent.
"""

import hmac
import json
import secrets
import socket
import struct
import time
from dataclasses import dataclass, field

NONCE_BYTES = 16
_LARGEST_HELLO = 1 << 12
_LENGTH = struct.Struct("!Q")


def code(key: bytes, who: str, rank: int, world: int, nonces: bytes) -> str:
    """Return the code that only a process with the key can compute, for these nonces, in this direction."""
    return hmac.digest(key, f"{who}/{rank}/{world}/".encode() + nonces, "sha256").hex()


def answer(key: bytes, rank: int, world: int, nonce: bytes) -> tuple[bytes, str]:
    """Answer the nonce of rank 0: return a rank's hello, and the code with which rank 0 has to answer."""
    own = secrets.token_bytes(NONCE_BYTES)
    hello = json.dumps([rank, world, own.hex(), code(key, "rank", rank, world, nonce + own)]).encode()
    return hello, code(key, "hub", rank, world, nonce + own)


@dataclass
class Guest:
    """A connection that has not yet shown who it is."""

    peer: socket.socket
    give_up: float
    """when it has had its time, by the monotonic clock"""
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(NONCE_BYTES))
    _received: bytearray = field(default_factory=bytearray)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.give_up

    def read(self, key: bytes, world: int) -> tuple[int, bytes] | None:
        """Read its hello; return its rank and the answer that is due once the hello is complete, None before.

        Raises:
            OSError, EOFError, ValueError: it is not a rank of this trial.
        """
        part = self.peer.recv(_LARGEST_HELLO)
        if not part:
            raise EOFError("the connection has ended")
        self._received += part
        if len(self._received) < _LENGTH.size:
            return None
        size = _LENGTH.unpack_from(self._received)[0]
        if size > _LARGEST_HELLO or len(self._received) > _LENGTH.size + size:
            raise ValueError(f"a hello of {size} bytes")
        if len(self._received) < _LENGTH.size + size:
            return None
        try:
            rank, of, nonce, said = json.loads(self._received[_LENGTH.size :])
            nonces = self.nonce + bytes.fromhex(nonce)
            known = hmac.compare_digest(code(key, "rank", int(rank), int(of), nonces), said)
        except (TypeError, RecursionError, OverflowError) as error:
            raise ValueError("no hello") from error
        if not known or of != world or len(nonces) != 2 * NONCE_BYTES:
            raise ValueError("a stranger")
        return rank, code(key, "hub", rank, world, nonces).encode()
