"""Numbers and paths that many fields of an experiment are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

Count = Annotated[int, Field(ge=1, le=1 << 40, strict=True)]
Natural = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Real = Annotated[float, Field(strict=True)]
FilePath = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=4096)]
