"""Payloads that no worker writes."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

MIB = 1 << 20


def sealed(*lines: object) -> bytes:
    """A payload whose head has these lines: JSON of them, or bytes as they are."""
    text = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    head = zlib.compress(text)
    return struct.pack("<8sI", b"SBENVEL1", len(head)) + head


def head(trial: str, attempt: int, **changes: Any) -> dict[str, Any]:
    """The first line of a head without ranks."""
    return {"trial": trial, "attempt": attempt, "leftOut": [], "journals": [], "ranks": 0} | changes


def bomb(trial: str, lines: bytes, ranks: int) -> bytes:
    """A head whose further lines cost a thousandth of their size."""
    return sealed(head(trial, 1, ranks=ranks), lines)


PAYLOADS: dict[str, Callable[[str, int], bytes]] = {
    "deep nesting": lambda trial, attempt: sealed(b"[" * 100_000),
    "1e999": lambda trial, attempt: sealed(
        json.dumps(head(trial, attempt)).replace(f'"attempt": {attempt}', '"attempt": 1e999').encode()
    ),
    "numbers in leftOut": lambda trial, attempt: sealed(head(trial, attempt, leftOut=[1, 2])),
    "half a surrogate": lambda trial, attempt: sealed(head(trial, attempt, leftOut=["\ud800"])),
}
"""What made every reconcile fail"""

BOMBS: dict[str, Callable[[str], bytes]] = {
    "newlines": lambda trial: bomb(trial, b"\n" * (120 * MIB), 0),
    "newlines that are announced": lambda trial: bomb(trial, b"\n" * (120 * MIB), 120 * MIB),
    "a long string": lambda trial: bomb(trial, b'{"rank":0,"record":{"trial":"' + b"x" * (100 * MIB) + b'"}}', 1),
    "a long string of many ranks": lambda trial: bomb(
        trial, b'{"rank":0,"record":{"trial":"' + b"x" * (100 * MIB) + b'"}}', 10**6
    ),
    "a long list": lambda trial: bomb(trial, b'{"rank":0,"record":{"options":{"a":[' + b"0," * (3 * MIB) + b"0]}}}", 1),
    "many objects": lambda trial: bomb(
        trial, b'{"rank":0,"record":{"options":{"a":[' + b"{}," * (2 * MIB) + b"{}]}}}", 1
    ),
    "many unknown fields": lambda trial: bomb(
        trial, b'{"rank":0,"record":{' + b",".join(b'"f%d":0' % index for index in range(500_000)) + b"}}", 1
    ),
    "many ranks": lambda trial: bomb(
        trial, b"\n".join(b'{"rank":%d,"record":{}}' % rank for rank in range(300_000)), 300_000
    ),
    "journals": lambda trial: sealed(head(trial, 1, journals=[[rank, 1, 1] for rank in range(500_000)])),
}
"""A few kB that cost memory or time"""
