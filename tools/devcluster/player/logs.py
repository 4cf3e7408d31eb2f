"""The logs of played pods, as the kubelet's TLS port serves them: a line, the framed record, another line."""

from collections.abc import Sequence

from aiohttp import web

from scalecurve_api.record import log_lines

Where = tuple[str, str]
"""namespace and name of a pod"""


class Logs:
    """Every pod has one; a record stands in it once it is kept."""

    def __init__(self) -> None:
        self._payloads: dict[Where, bytes | None] = {}
        """to be framed at the log's end; None for a log that cannot be read"""
        self._torn: set[Where] = set()
        self._flood_mib: dict[Where, int] = {}
        self._printed: dict[Where, list[str]] = {}

    def print(self, where: Where, lines: Sequence[str]) -> None:
        """What the program printed."""
        self._printed[where] = [f"{line}\n" for line in lines]

    def keep(self, where: Where, payload: bytes | None, *, torn: bool, flood_mib: int = 0) -> None:
        """Serve this record, without its last line if it is torn, behind so much of short lines.

        None is a log that cannot be read.
        """
        self._payloads[where] = payload
        self._flood_mib[where] = flood_mib
        if torn:
            self._torn.add(where)

    def forget(self, where: Where) -> None:
        """The pod is gone."""
        self._payloads.pop(where, None)
        self._torn.discard(where)
        self._flood_mib.pop(where, None)
        self._printed.pop(where, None)

    async def serve(self, request: web.Request) -> web.Response:
        """Answer ``/containerLogs/{namespace}/{pod}/{container}``, with the limits that the API server passes on."""
        where = (request.match_info["namespace"], request.match_info["pod"])
        payload = self._payloads.get(where, b"")
        if payload is None:
            return web.Response(status=500, text="failed to open log file: no such file or directory")
        lines = ["played: a line of output\n", *self._printed.get(where, [])]
        if "tailLines" not in request.query:
            lines += ["x\n" * (1 << 19)] * self._flood_mib.get(where, 0)
        if payload:
            frame = list(log_lines.frame(payload))
            if where in self._torn:
                del frame[-1]
            lines += [f"{line}\n" for line in frame]
            lines.append("played: another line behind the record\n")
        if (tail := request.query.get("tailLines")) is not None:
            lines = lines[-int(tail) :] if int(tail) else []
        text = "".join(lines)
        if (limit := request.query.get("limitBytes")) is not None:
            text = text[: int(limit)]
        return web.Response(text=text)
