"""``program: custom``: the user's own command, started once for every worker."""

from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.programs.workload import Text, Workload


class CustomWorkload(Workload):
    """The user's own command, which the SDK times."""

    counts_samples: ClassVar[bool] = False

    program: Literal["custom"]
    command: list[Text] = Field(
        min_length=1, max_length=1000, description="Command that starts one worker, such as [python, train.py]."
    )
