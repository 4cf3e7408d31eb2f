"""The base of every typed model: camelCase on the wire, snake_case in Python, unknown fields refused."""

import copy
import json
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

M = TypeVar("M", bound="Model")
MOST_COUNT = 1 << 40
Count = Annotated[int, Field(ge=1, le=MOST_COUNT, strict=True)]
Whole = Annotated[int, Field(strict=True)]
Natural = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63), WithJsonSchema({"type": "integer"})]
"""What an API server and a column of a table can hold"""
Text = Annotated[str, StringConstraints(max_length=1 << 17)]
"""As long as Linux lets an environment variable be"""
Real = Annotated[float, Field(strict=True)]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr
MOST_UNKNOWN = 1000
"""Fields that a newer version may have: listing what is wrong with more costs more than they do"""
MAX_SAFE_NAME = 63
SafeName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=MAX_SAFE_NAME)]
"""One plain component of a path, and a DNS label: no separator, no dot, no control character."""
SAFE_NAMES = f"1 to {MAX_SAFE_NAME} lower-case letters, digits and inner dashes"
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$", max_length=255)]
"""A file of a record: one plain component of a path, not hidden."""
FilePath = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=4096)]


class Model(BaseModel):
    """Immutable, strict about unknown fields; ``wire()`` gives what is written to YAML, JSON and Kubernetes."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    def wire(self) -> dict[str, Any]:
        """The camelCase JSON form, without fields that are None."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def field_value(self, path: str) -> Any:
        """The wire form of a field named as on the wire, such as ``options.commHook``; None where there is none."""
        value: Any = self
        for name in path.split("."):
            kind = type(value)
            names = {field.alias: key for key, field in kind.model_fields.items()} if isinstance(value, Model) else {}
            value = getattr(value, names.get(name, ""), None)
        return value.wire() if isinstance(value, Model) else value


class Described(Model):
    """A part of an API object: a docstring below a field is its description in the CRD and on the reference page."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def fields_by_name(kind: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by their names on the wire."""
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def model_in(annotation: Any) -> type[Model] | None:
    """The model that a field's annotation holds, if it holds one."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    return next((model for argument in get_args(annotation) if (model := model_in(argument)) is not None), None)


def understood(kind: type[M], wire: dict[str, Any]) -> tuple[M, tuple[str, ...]]:
    """What may come from a newer version, without the fields that this one does not know; and the names of those.

    Raises:
        ValidationError: for anything else that is wrong with it.
    """
    try:
        return kind.model_validate(wire), ()
    except ValidationError as error:
        if error.error_count() > MOST_UNKNOWN:
            raise
        newer = [entry["loc"] for entry in error.errors(include_url=False) if entry["type"] == "extra_forbidden"]
        if not newer:
            raise
    known = copy.deepcopy(wire)
    for *outer, name in newer:
        inside: Any = known
        for step in outer:
            inside = inside[step]
        del inside[name]
    names = (".".join(str(step) for step in place if not isinstance(step, int)) for place in newer)
    return kind.model_validate(known), tuple(dict.fromkeys(names))


def canonical_json(value: object) -> str:
    """One spelling for one value: sorted keys, no spaces, ASCII. Digests are taken over this."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
