"""The termination message of a trial's pod: what fits 4 KiB (Kubernetes keeps no more of one container)."""

import json
from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field, ValidationError

from scalecurve_api.model import Model, understood
from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.trial_record import Summary

TERMINATION_SCHEMA: Final = "scalecurve.dev/termination/v1alpha1"
LIMIT = 4096


class Termination(Model):
    """What one pod says at its end; ``sha256`` and ``bytes`` are of the record's payload that it printed."""

    schema_: Literal["scalecurve.dev/termination/v1alpha1"] = Field(default=TERMINATION_SCHEMA, alias="schema")
    trial: str
    attempt: int
    sha256: str | None = None
    bytes: int | None = None
    summary: Summary | None = None
    missing: str | None = Field(default=None, max_length=300, description="why its ranks left no record")
    failures: list[RankFailure] = []
    exit_codes: dict[str, int | None] = {}


def spell(termination: Termination) -> str:
    """At most 4,096 bytes of UTF-8; failures and exit codes are cut first, in the end everything but the digest."""
    for shorter in _shorter(termination):
        text = shorter.model_dump_json(by_alias=True)
        if len(text.encode()) <= LIMIT:
            return text
    raise AssertionError("the shortest termination message fits")  # pragma: no cover


def read(text: str) -> Termination | None:
    """The message that ``spell`` wrote, of a newer version too; None for anything else."""
    try:
        return Termination.model_validate_json(text)
    except ValidationError as error:
        if not all(entry["type"] == "extra_forbidden" for entry in error.errors(include_url=False)):
            return None
    wire = json.loads(text)
    return understood(Termination, wire)[0] if wire.get("schema") == TERMINATION_SCHEMA else None


def _shorter(termination: Termination) -> Iterator[Termination]:
    for failures, length, codes in ((8, 300, 8), (8, 120, 8), (4, 120, 4), (1, 300, 1), (1, 60, 1)):
        shown = [
            failure.model_copy(update={"message": failure.message[:length], "reason": failure.reason[:64]})
            for failure in termination.failures[:failures]
        ]
        names = list(termination.exit_codes)[:codes]
        kept = {name[:64]: termination.exit_codes[name] for name in names}
        yield termination.model_copy(update={"failures": shown, "exit_codes": kept})
    sha256 = termination.sha256 and termination.sha256[:64]
    bare: dict[str, object] = {"missing": None, "failures": [], "exit_codes": {}, "sha256": sha256}
    yield termination.model_copy(update=bare)
    yield termination.model_copy(update={**bare, "summary": None, "trial": termination.trial[:253]})
