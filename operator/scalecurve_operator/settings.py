"""The operator's settings, read once from the environment, which the chart sets."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_SLOTS = 1
_MAX_RECORD_BYTES = 50_000_000
"""A bit less than the ConfigMaps that a trial's status can name can hold."""
_IMAGES = "ghcr.io/scalecurve"
_DEFAULT_IMAGES = {
    "torch": f"{_IMAGES}/worker-torch:latest",
    "allreduce": f"{_IMAGES}/worker-torch:latest",
    "custom": f"{_IMAGES}/worker-torch:latest",
    "tensorflow": f"{_IMAGES}/worker-tensorflow:latest",
    "horovod": f"{_IMAGES}/worker-horovod:latest",
}


class SettingsError(ValueError):
    """An invalid variable; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """Everything about an operator that is not in the cluster. Times are in seconds."""

    namespaces: tuple[str, ...] = ()
    """watched namespaces; empty is the whole cluster"""
    pools: Mapping[str, int] = field(default_factory=dict)
    """pool -> experiments that may run at once; other pools have ``DEFAULT_SLOTS``"""
    images: Mapping[str, str] = field(default_factory=lambda: dict(_DEFAULT_IMAGES))
    identity: str = "operator"
    lease_namespace: str = "default"
    lease_name: str = "scalecurve-operator"
    lease_seconds: float = 10.0
    metrics_port: int = 8080
    health_port: int = 8081
    starting_seconds: float = 30.0
    """how long a job may be Starting before its pods and Events are looked at, and how often from then on"""
    record_bytes: int = 4 << 20
    """of one trial; in base64 it stays below the 10 MiB at which a kubelet rotates a log and serves only the rest"""
    worker_metrics_port: int = 9400
    """port of /metrics of a pod's first worker; 0 is none"""
    linger_seconds: float = 0.0
    """how long workers stay up after their last step: one scrape interval, if they are scraped"""
    log_level: str = "INFO"
    log_format: str = "json"

    def slots(self, pool: str) -> int:
        return self.pools.get(pool, DEFAULT_SLOTS)


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from ``SCALECURVE_*`` variables; unset and empty ones keep their defaults.

    Raises:
        SettingsError: naming the variable.
    """
    get = _Reader(environment)
    images = {program: get.text(f"IMAGE_{program.upper()}", default) for program, default in _DEFAULT_IMAGES.items()}
    namespace = environment.get("POD_NAMESPACE") or "default"
    return Settings(
        namespaces=tuple(filter(None, (part.strip() for part in get.text("NAMESPACES", "").split(",")))),
        pools=get.pools("POOLS"),
        images=images,
        identity=environment.get("POD_NAME") or f"{platform.node()}-{os.getpid()}",
        lease_namespace=get.text("LEASE_NAMESPACE", namespace),
        lease_name=get.text("LEASE_NAME", "scalecurve-operator"),
        lease_seconds=get.number("LEASE_SECONDS", 10.0, minimum=1.0, maximum=3600),
        metrics_port=get.integer("METRICS_PORT", 8080, minimum=0, maximum=65_535),
        health_port=get.integer("HEALTH_PORT", 8081, minimum=0, maximum=65_535),
        starting_seconds=get.number("STARTING_SECONDS", 30.0, minimum=0.1),
        record_bytes=get.integer("RECORD_BYTES", 4 << 20, minimum=1 << 16, maximum=_MAX_RECORD_BYTES),
        worker_metrics_port=get.integer("WORKER_METRICS_PORT", 9400, minimum=0, maximum=65_535),
        linger_seconds=get.number("LINGER_SECONDS", 0, minimum=0),
        log_level=get.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
        log_format=get.choice("LOG_FORMAT", "json", ("json", "text")),
    )


@dataclass(frozen=True)
class _Reader:
    environment: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.environment.get(f"SCALECURVE_{name}", "").strip() or default

    def number(
        self, name: str, default: float, minimum: float, maximum: float = 86_400.0, kind: str = "a number"
    ) -> float:
        text = self.text(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not minimum <= value <= maximum or (kind == "an integer" and value != int(value)):
            raise SettingsError(f"SCALECURVE_{name}={text!r}: expected {kind} from {minimum:g} to {maximum:.8g}")
        return value

    def integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        return int(self.number(name, default, minimum, maximum, "an integer"))

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = self.text(name, default)
        for value in allowed:
            if text.lower() == value.lower():
                return value
        raise SettingsError(f"SCALECURVE_{name}={text!r}: expected one of {', '.join(allowed)}")

    def pools(self, name: str) -> dict[str, int]:
        slots: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in self.text(name, "").split(","))):
            match = re.fullmatch(r"([a-z0-9][-a-z0-9]{0,39})=([1-9][0-9]{0,4})", part)
            if match is None or match[1] in slots:
                raise SettingsError(
                    f"SCALECURVE_{name}: {part!r}: expected POOL=SLOTS, each pool once: default=1,big=4"
                )
            slots[match[1]] = int(match[2])
        return slots
