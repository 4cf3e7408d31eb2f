"""Who asked the API server for what, counted from its audit log: exact, whatever the clients say of themselves."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

READS = ("get", "list")
WRITES = ("create", "update", "patch", "delete", "deletecollection")
LATE_S = 1.2
"""Lines reach the file in batches, half a second late."""


class Audit:
    """The audit log of one API server; `flags` go to it. With `users` the others' requests are not logged."""

    def __init__(self, folder: Path, users: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file, policy = folder / "audit.log", folder / "audit-policy.json"
        rule: dict[str, Any] = {"level": "Metadata"}
        if users:
            rule["users"] = list(users)
        rules = [rule, {"level": "None"}]
        policy.write_text(
            json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
                        "rules": rules})
        )  # fmt: skip
        self.flags = [
            f"--audit-policy-file={policy}", f"--audit-log-path={self.file}", "--audit-log-mode=batch",
            "--audit-log-batch-buffer-size=200000", "--audit-log-batch-max-wait=500ms", "--audit-log-maxsize=4096",
        ]  # fmt: skip

    def requests(self, since: float = 0.0, until: float = float("inf")) -> Iterator[dict[str, Any]]:
        """Answered requests that came in between two Unix times; a watch counts from its beginning."""
        with self.file.open() as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # still being written
                if entry["stage"] != ("ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete"):
                    continue
                if since <= unix(entry["requestReceivedTimestamp"]) <= until:
                    yield entry


@dataclass
class Counts:
    """Requests of one user. Lease renewals are counted apart: they go on at rest, whatever the load."""

    by_kind: Counter[str] = field(default_factory=Counter)
    """verb and resource"""
    reads: int = 0
    writes: int = 0
    events: int = 0
    """writes that post an Event; among `writes`"""
    leases: int = 0
    """reads and writes of leases; not among `reads` and `writes`"""
    served_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """verb and resource -> from a request's arrival at the API server to the end of its answer"""
    refused: Counter[int] = field(default_factory=Counter)
    """by HTTP status, from 400 on"""

    def per(self, trials: int) -> dict[str, float]:
        """Each kind of request for one trial."""
        return {kind: round(count / trials, 2) for kind, count in self.by_kind.most_common()}

    def served_ms(self) -> dict[str, float]:
        """The API server's own time by kind of request, median in milliseconds."""
        return {kind: round(median(times) * 1000, 1) for kind, times in self.served_s.items()}


def count(audit: Audit, user: str, since: float = 0.0, until: float = float("inf")) -> Counts:
    """The requests of `user`."""
    found = Counts()
    for entry in audit.requests(since, until):
        if entry["user"]["username"] != user:
            continue
        what, verb = entry.get("objectRef") or {}, entry["verb"]
        resource = "/".join(filter(None, (what.get("resource", entry["requestURI"]), what.get("subresource"))))
        if resource == "leases":
            found.leases += 1
            continue
        kind = f"{verb} {resource}"
        found.by_kind[kind] += 1
        found.served_s[kind].append(unix(entry["stageTimestamp"]) - unix(entry["requestReceivedTimestamp"]))
        found.reads += verb in READS
        found.writes += verb in WRITES
        found.events += verb in WRITES and resource == "events"
        code = int((entry.get("responseStatus") or {}).get("code") or 0)
        if code >= 400:
            found.refused[code] += 1
    return found


def unix(moment: str) -> float:
    """Unix time of an audit timestamp: RFC 3339 with microseconds, UTC."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
