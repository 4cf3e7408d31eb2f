"""The operator's settings, read once from the environment, which the chart sets."""

import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel

from scalecurve_api.programs.workload import PROGRAMS
from scalecurve_api.spec.pod_options import PodOptions
from scalecurve_kube import object_store

UNLISTED = ""
"""Stands for all pools that the settings do not list: together they have one slot."""
_WORKER = "ghcr.io/scalecurve/worker"
_DEFAULT_IMAGES = {
    name: f"{_WORKER}-{program.worker_image}:latest"
    for name, program in PROGRAMS.loadable().items()
    if program.worker_image
}
_DAY_S = 86_400.0
_LIMITS = {
    "lease_seconds": (1.0, 3600.0),
    "metrics_port": (0, 65_535),
    "health_port": (0, 65_535),
    "starting_seconds": (0.1, _DAY_S),
    # The maximum is a bit less than the ConfigMaps that a trial's status can name can hold.
    "record_bytes": (1 << 16, 50_000_000),
    "experiment_record_bytes": (1 << 20, 1 << 40),
    "max_experiment_hours": (0.001, 87_600.0),
    "worker_metrics_port": (0, 65_535),
    "linger_seconds": (0.0, _DAY_S),
}
_CHOICES = {
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
    "log_format": ("json", "text"),
    "unlisted_pools": ("refuse", "one"),
}
POD_OPTIONS = tuple(to_camel(name) for name in PodOptions.model_fields)
"""Of ``spec.pod``, as an experiment spells them."""


class SettingsError(ValueError):
    """An invalid variable; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class Settings:
    """Everything about an operator that is not in the cluster. Times are in seconds."""

    namespaces: tuple[str, ...] = ()  # watched namespaces; empty is the whole cluster
    pools: Mapping[str, int] = field(default_factory=lambda: {"default": 1})
    """pool -> experiments that may run at once"""
    unlisted_pools: str = "refuse"  # experiments of other pools: ``refuse`` them, or give them ``one`` slot together
    max_experiment_hours: float = 168.0  # from the start of its first trial on
    forbidden_pod_options: tuple[str, ...] = ()  # of POD_OPTIONS
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
    experiment_record_bytes: int = 512 << 20
    """of all attempts of an experiment: etcd holds 2 GiB unless told otherwise"""
    records_url: str = ""  # folder of an object store for records, as s3://bucket/folder; empty: ConfigMaps
    worker_metrics_port: int = 9400  # port of /metrics of a pod's first worker; 0 is none
    linger_seconds: float = 0.0
    """how long workers stay up after their last step: one scrape interval, if they are scraped"""
    log_level: str = "INFO"
    log_format: str = "json"

    def pool(self, name: str) -> str:
        """The pool that an experiment which names this one takes turns in."""
        return name if name in self.pools else UNLISTED

    def slots(self, pool: str) -> int:
        return self.pools.get(pool, 1)


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings from ``SCALECURVE_*`` variables, or a SettingsError; unset and empty ones keep their defaults."""
    get = _Reader(environment)
    values: dict[str, Any] = {name: get.number(name, *limits) for name, limits in _LIMITS.items()}
    values |= {name: get.choice(name, choices) for name, choices in _CHOICES.items()}
    return Settings(
        namespaces=tuple(get.parts("namespaces")),
        pools=get.pools() or Settings().pools,
        forbidden_pod_options=get.pod_options(),
        records_url=get.records_url(),
        images={program: get.text(f"image_{program}", default) for program, default in _DEFAULT_IMAGES.items()},
        identity=environment.get("POD_NAME") or f"{platform.node()}-{os.getpid()}",
        lease_namespace=get.text("lease_namespace", environment.get("POD_NAMESPACE") or Settings.lease_namespace),
        lease_name=get.text("lease_name", Settings.lease_name),
        **values,
    )


@dataclass(frozen=True)
class _Reader:
    """Reads variables by the names of the settings."""

    environment: Mapping[str, str]

    def text(self, name: str, default: str = "") -> str:
        return self.environment.get(f"SCALECURVE_{name.upper()}", "").strip() or default

    def number(self, name: str, minimum: float, maximum: float) -> float:
        """An integer if the default is one."""
        default = getattr(Settings, name)
        text, integer = self.text(name, str(default)), isinstance(default, int)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not minimum <= value <= maximum or (integer and value != int(value)):
            kind = "an integer" if integer else "a number"
            expected = f"expected {kind} from {minimum:g} to {maximum:.8g}"
            raise SettingsError(f"SCALECURVE_{name.upper()}={text!r}: {expected}")
        return int(value) if integer else value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        text = self.text(name, getattr(Settings, name))
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise SettingsError(f"SCALECURVE_{name.upper()}={text!r}: expected one of {', '.join(choices)}")

    def parts(self, name: str) -> list[str]:
        return [part.strip() for part in self.text(name).split(",") if part.strip()]

    def records_url(self) -> str:
        if url := self.text("records_url"):
            try:
                object_store.check(url)
            except object_store.ObjectStoreError as error:
                raise SettingsError(f"SCALECURVE_RECORDS_URL={url!r}: {error}") from error
        return url

    def pod_options(self) -> tuple[str, ...]:
        options = tuple(self.parts("forbidden_pod_options"))
        if unknown := [option for option in options if option not in POD_OPTIONS]:
            expected = f"expected some of {', '.join(POD_OPTIONS)}"
            raise SettingsError(f"SCALECURVE_FORBIDDEN_POD_OPTIONS: {unknown[0]!r}: {expected}")
        return options

    def pools(self) -> dict[str, int]:
        slots: dict[str, int] = {}
        for part in self.parts("pools"):
            match = re.fullmatch(r"([a-z0-9][-a-z0-9]{0,39})=([1-9][0-9]{0,4})", part)
            if match is None or match[1] in slots:
                expected = "expected POOL=SLOTS, each pool once: default=1,big=4"
                raise SettingsError(f"SCALECURVE_POOLS: {part!r}: {expected}")
            slots[match[1]] = int(match[2])
        return slots
