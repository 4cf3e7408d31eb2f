"""Why a cluster could not be read or changed. Every message is one line for people."""

import json
from typing import Self


class ClusterError(Exception):
    """A cluster cannot be used: no client library, no kubeconfig, no answer, a refusal."""


class ApiStatusError(ClusterError):
    """The API server refused the request; ``message`` is the server's own."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"the API server refused the request ({status}{reason and ' ' + reason}): {message}")
        self.status, self.reason, self.message = status, reason, message

    @classmethod
    def from_body(cls, status: int, data: bytes) -> Self:
        """From the Status object that the server sent, or from the beginning of whatever else it sent."""
        try:
            body = json.loads(data)
            return cls(status, str(body.get("reason") or ""), str(body.get("message") or ""))
        except (ValueError, AttributeError):
            return cls(status, "", " ".join(data[:500].decode(errors="replace").split()))


class UnreachableError(ClusterError):
    """The API server did not answer in time."""


class LeaseLostError(ClusterError):
    """This process may not write: it has lost its lease, or did not renew it in time."""
