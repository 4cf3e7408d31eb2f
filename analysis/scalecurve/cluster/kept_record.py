"""The record of a trial in a cluster, from its ConfigMaps or from the operator's object store, checked."""

import base64
import binascii

from pydantic import ValidationError

from scalecurve.cluster.experiments import BegunTrial
from scalecurve.cluster.status import last_attempt
from scalecurve_api.crds.status import KeptRecord
from scalecurve_api.model import understood
from scalecurve_api.record.envelope import Envelope, EnvelopeError, digest, unseal
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.spec.object_names import OUTCOME_KEY, RECORD_KEY
from scalecurve_kube import object_store
from scalecurve_kube.blocking import BlockingCluster
from scalecurve_kube.resources import CONFIG_MAPS


class RecordError(Exception):
    """A trial's record is missing from the cluster or incomplete."""


def fetch(cluster: BlockingCluster, trial: BegunTrial) -> tuple[Outcome, Envelope | None]:
    """What the operator observed of the newest kept attempt, and what its ranks left, where that is there.

    Raises:
        RecordError: when something is gone, damaged, or of another attempt.
    """
    attempt = last_attempt(trial.status)
    assert attempt is not None
    try:
        kept = understood(KeptRecord, trial.status["record"])[0] if trial.status.get("record") else None
    except (ValidationError, TypeError) as error:
        raise RecordError(f"the trial's status.record is damaged: {_brief(error)}") from error
    if kept is None:
        raise RecordError("the trial's status names no record")
    where, text, payload = _read_object(kept.object) if kept.object else _read_config_maps(cluster, kept)
    try:
        outcome = Outcome.model_validate_json(text)
    except ValidationError as error:
        raise RecordError(f"{where} is damaged: {_brief(error)}") from error
    if outcome.attempt != attempt:
        raise RecordError(f"{where} is from attempt {outcome.attempt}, but the trial's last is {attempt}")
    if outcome.unreadable is not None:
        return outcome, None  # what the operator could not open is not opened here
    return outcome, _open_envelope(trial, attempt, payload, kept)


def _read_config_maps(cluster: BlockingCluster, kept: KeptRecord) -> tuple[str, str, bytes]:
    """The first ConfigMap's name, the outcome in it, and the payload in all of them."""
    if not kept.config_maps:
        raise RecordError("the trial's status.record names no ConfigMap")
    parts, text = [], ""
    for index, name in enumerate(kept.config_maps):
        document = cluster.get(CONFIG_MAPS, name)
        if document is None:
            raise RecordError(f"ConfigMap {name} is gone: the record was deleted in the cluster")
        try:
            parts.append(base64.b64decode((document.get("binaryData") or {}).get(RECORD_KEY, ""), validate=True))
            if index == 0:
                text = (document.get("data") or {})[OUTCOME_KEY]
        except (binascii.Error, KeyError) as error:
            raise RecordError(f"ConfigMap {name} is damaged: {_brief(error)}") from error
    return f"ConfigMap {kept.config_maps[0]}", text, b"".join(parts)


def _read_object(name: str) -> tuple[str, str, bytes]:
    try:
        text, _, payload = object_store.read(name).partition(b"\n")
    except object_store.ObjectStoreError as error:
        raise RecordError(str(error)) from error
    return f"object {name}", text.decode(errors="replace"), payload


def _open_envelope(trial: BegunTrial, attempt: int, payload: bytes, kept: KeptRecord | None) -> Envelope | None:
    """The checked envelope; None where the ranks left nothing."""
    if not payload and (kept is None or not kept.bytes):
        return None
    if kept is None or digest(payload) != kept.sha256:
        stated = f"{kept.bytes} bytes with {kept.sha256}" if kept else "nothing of it"
        raise RecordError(
            f"the record's {len(payload)} bytes have sha256 {digest(payload)}, and the trial's status states "
            f"{stated}: it was changed or damaged in the cluster"
        )
    try:
        envelope = unseal(payload)
    except EnvelopeError as error:
        raise RecordError(f"the record cannot be opened: {error}") from error
    if (envelope.trial, envelope.attempt) != (trial.trial, attempt):
        raise RecordError(f"the record is of {envelope.trial}, attempt {envelope.attempt}")
    return envelope


def _brief(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
