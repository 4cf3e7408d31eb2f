"""How a program spreads training over workers: what the rest of the project asks of a strategy."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from scalecurve_api.model import Model
from scalecurve_api.problem import one_of
from scalecurve_api.registry import Registry, RegistryError


@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy:
    """A way to spread training over the workers of a program."""

    name: str
    wrapper: str  # what RankRecord.strategy must say
    one_worker: bool = False
    one_process: bool = False  # it drives every worker: each is then a replica in it, with a record of its own
    one_copy: str = ""  # where the only parameters are, if there are no two copies to compare: "on the servers"
    lays_out: bool = False  # it divides workers by workload.parallelism
    only_timed: str = ""  # why nothing is measured after its timed windows
    options: type[Model] = Model  # the fields of workload.options

    def __str__(self) -> str:
        return self.name


class Servers(Protocol):
    """What the core asks of servers that hold the parameters of a strategy, and that the first rank starts."""

    @property
    def servers(self) -> int:
        """Count them."""

    @property
    def updates(self) -> StrEnum:
        """Return when a server updates its parameters."""

    @property
    def asynchronous(self) -> bool:
        """Tell whether a worker waits for no other one."""

    @property
    def backup_workers(self) -> int:
        """Count the workers whose gradients an update may ignore."""


S = TypeVar("S", bound=Strategy)


@dataclass(frozen=True)
class NameIn(Generic[S]):
    """Annotates a string field that must name a registered strategy."""

    strategies: Registry[S]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate_name, serialization=core_schema.to_string_ser_schema()
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "enum": [*self.strategies.names()]}

    def _validate_name(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.strategies:
            names = one_of(map(repr, self.strategies.names()))
            raise PydanticKnownError("literal_error", {"expected": names})
        try:
            return self.strategies.get(value).name
        except RegistryError as error:
            raise ValueError(str(error)) from error


def named(strategies: Registry[S], attribute: str) -> Iterator[str]:
    """Yield the names of the strategies that have an attribute, for a message."""
    return (name for name, strategy in strategies.loadable().items() if getattr(strategy, attribute))
