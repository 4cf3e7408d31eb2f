"""``--device`` of verbs that compare an estimate of memory with a device."""

import click


def device_memory_gb(name: str | None) -> float | None:
    """Memory of the named device in GB; None without a name.

    Raises:
        click.BadParameter: the device is unknown.
    """
    if name is None:
        return None
    from scalecurve.hardware.devices import HardwareError
    from scalecurve.planning.memory import device_gb

    try:
        return device_gb(name)
    except HardwareError as error:
        raise click.BadParameter(str(error), param_hint="--device") from error
