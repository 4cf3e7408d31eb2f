"""Variables of a workload that stand in a Secret or a ConfigMap."""

from typing import Annotated

from pydantic import Field, StrictBool, StringConstraints

from scalecurve_api.model import Described

Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=256)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]


class EnvSource(Described):
    """Variables whose values stand in a Secret or a ConfigMap, and in no record.

    On one machine they come from the environment that ``scalecurve run`` is called in.
    """

    secret: ObjectName | None = None
    """Name of the Secret, in the experiment's namespace."""
    config_map: ObjectName | None = None
    """Name of the ConfigMap, in the experiment's namespace; either this or ``secret``."""
    key: str | None = Field(default=None, pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)
    """The key to take; all keys by default, each as a variable of its name."""
    name: Variable | None = None
    """Name of the variable that gets the value of ``key``; the key's own by default."""
    prefix: Variable | None = None
    """What stands before the name of every variable when all keys are taken."""
    optional: StrictBool = False
    """Whether a worker starts without it."""

    @property
    def variable(self) -> str | None:
        """The one variable that is set, if it is one."""
        return self.name or self.key
