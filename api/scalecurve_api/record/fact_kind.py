"""Facts that only some programs measure: how each is read, combined over ranks, bounded and judged, by name.

A package adds a kind by an entry point in the group ``scalecurve.facts``::

    [project.entry-points."scalecurve.facts"]
    queueTime = "my_package.facts:QUEUE_TIME"

Its values are in ``facts`` of the records of ranks and trials. Built-in kinds are still written as fields of the record
itself, where older versions expect them; both forms are read.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import (
    ModelWrapValidatorHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from scalecurve_api.model import Model
from scalecurve_api.registry import Registry, RegistryError
from scalecurve_api.spec.trial import TrialSpec

T = TypeVar("T")
Limits = tuple[float, float]
Bounds = Mapping[str, Mapping[str, Limits | Callable[[Any], Limits]]]
CheckResult = tuple[bool | None, str]
"""Whether a check passed, None if it could not be made, and its evidence."""


@dataclass(frozen=True)
class Combination:
    """How the facts of all ranks become those of their trial, and what a trial's record still tells of one rank."""

    combine: Callable[[Sequence[Any]], Any]  # of every rank, None where it has none
    part: Callable[["FactKind[Any]", "Recorded", int], Any]  # of a trial's record, for a rank by its index
    of_every_rank: bool = False  # whether the trial has a list, with one entry for each rank
    kept: bool = True  # whether the trial has it at all


FIRST = Combination(lambda values: values[0], lambda kind, record, rank: None if rank else kind.of(record))
SHARED = Combination(lambda values: values[0], lambda kind, record, rank: kind.of(record))
"""The same on every rank: the first one's stands for all."""
EVERY = Combination(
    lambda values: list(values) if any(value is not None for value in values) else None,
    lambda kind, record, rank: next(iter(kind.of_ranks(record)[rank:]), None),
    of_every_rank=True,
)


@dataclass(frozen=True, eq=False)
class FactKind(Generic[T]):
    """One kind of fact.

    Bounds are by the place in the fact, "" for itself, and by field: the smallest and the largest possible value, or a
    function that tells both of what has the field. A check is by the name that it is shown under; under another than an
    ``InvalidReason``'s it only warns. It gets the ranks' records, and returns None where it does not apply. ``summary``
    gives fields of the trial's ``Summary``, by the first rank's record.
    """

    name: str  # as on the wire, in camelCase, and as it is registered
    form: Any  # what pydantic validates: a model, or a list of one
    absent: T  # what a record without any has
    ranks: Combination = FIRST
    bounds: Bounds = field(default_factory=dict)
    checks: Mapping[str, Callable[[TrialSpec, Sequence[Any]], CheckResult | None]] = field(default_factory=dict)
    apart: Callable[[TrialSpec, Sequence[Any]], str | None] | None = None  # what shows that replicas diverged
    summary: Callable[[TrialSpec, "Recorded"], Mapping[str, Any]] | None = None
    tables: Callable[[T], Mapping[str, bytes]] | None = None  # files beside the record, by name
    is_result: bool = False  # whether its rows are what a program without timed windows measures

    def of(self, record: "Recorded") -> T:
        """What a rank measured, or its trial has of it."""
        value: T | None = record.facts.get(self.name)
        return self.absent if value is None else value

    def of_ranks(self, record: "Recorded") -> Sequence[T | None]:
        """Each rank's, of a trial that keeps them all."""
        values: Sequence[T | None] = record.facts.get(self.name, ())
        return values

    def put(self, record: "Recorded", value: T) -> None:
        """Note what was measured in a record that is being made."""
        record.facts[self.name] = value

    def extend(self, record: "Recorded", rows: Iterable[Any]) -> None:
        """Add rows to those that were noted, of a kind that is a list of them."""
        record.facts.setdefault(self.name, []).extend(rows)

    @cached_property
    def _rank_adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.form)

    @cached_property
    def _trial_adapter(self) -> TypeAdapter[Any]:
        listed: Any = list
        return TypeAdapter(listed[self.form | None]) if self.ranks.of_every_rank else self._rank_adapter

    def validated(self, value: Any, of_trial: bool) -> Any:
        """The value in its form; raises ValidationError."""
        return (self._trial_adapter if of_trial else self._rank_adapter).validate_python(value)


FACT_KINDS: Registry[FactKind[Any]] = Registry(
    "scalecurve.facts",
    "kind of fact",
    FactKind,
    {"dataset": "scalecurve_api.record.facts.dataset:DATASET"},
)


AS_FIELDS = dict.fromkeys((
    "allreduce", "axisTraffic", "collectives", "dataset", "equality", "evaluations",
    "layout", "noiseScale", "pipeline", "pushes", "quantization", "servers",
))  # fmt: skip
"""Kinds that are fields of the record itself wherever it is read, known here or not: older versions wrote no others."""


def known_kinds(names: Iterable[str] | None = None) -> Iterator[FactKind[Any]]:
    """Kinds by these names, or all that are registered; without those that are unknown here.

    One that cannot be loaded, or is registered under another name than its own, is a warning.
    """
    for name in FACT_KINDS.names() if names is None else names:
        if name not in FACT_KINDS:
            continue
        try:
            kind = FACT_KINDS.get(name)
        except RegistryError as error:
            warnings.warn(str(error), stacklevel=2)
            continue
        if kind.name == name:
            yield kind
        else:
            warnings.warn(f"kind of fact {kind.name!r} is registered as {name!r} and ignored", stacklevel=2)


class Recorded(Model):
    """A record with facts by the names of their kinds; those of unknown kinds are kept as they were read."""

    of_trial: ClassVar[bool] = False
    facts: dict[str, Any] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """From ``facts``, or from the fields that facts were; an error has the place of what was read."""
        if not isinstance(value, dict) or not isinstance(value.get("facts") or {}, dict):
            return handler(value)
        own = {name: part for name, part in value.items() if name != "facts" and name not in AS_FIELDS}
        places: dict[tuple[str, ...], Any] = {(name,): value[name] for name in AS_FIELDS if name in value}
        places |= {("facts", name): part for name, part in (value.get("facts") or {}).items()}
        facts: dict[str, Any] = {}
        errors: list[Any] = []
        for place, part in places.items():
            if part is None or part == []:
                continue
            try:
                for kind in known_kinds([place[-1]]):
                    part = kind.validated(part, cls.of_trial)
                facts[place[-1]] = part
            except ValidationError as error:
                errors += _details(error, place)
        try:
            record = handler({**own, "facts": facts})
        except ValidationError as error:
            if not errors:
                raise
            errors = [*_details(error), *errors]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return record

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """With the built-in kinds as fields of the record itself, empty ones too, as every version reads them."""
        wire: dict[str, Any] = handler(self)
        facts = wire.pop("facts", {})
        for kind in known_kinds(AS_FIELDS):
            if self.of_trial and not kind.ranks.kept:
                continue
            listed = kind.absent is not None or (self.of_trial and kind.ranks.of_every_rank)
            empty: list[Any] | None = [] if listed else None
            if (value := facts.pop(kind.name, empty)) is not None or not info.exclude_none:
                wire[kind.name] = value
        return {**wire, "facts": facts} if facts else wire


def _details(error: ValidationError, place: tuple[str, ...] = ()) -> Iterator[InitErrorDetails]:
    for entry in error.errors(include_url=False):
        what = PydanticCustomError(entry["type"], entry["msg"])
        yield InitErrorDetails(type=what, loc=(*place, *entry["loc"]), input=entry["input"])
