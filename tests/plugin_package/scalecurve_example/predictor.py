"""``scalecurve predict amdahl``: the speed-up of a job of which a share runs on one worker."""

import click

from scalecurve.cli.verbs import Verb

AMDAHL = Verb("scalecurve_example.predictor", "Speed-up by the share that runs on one worker (Amdahl, 1967).")


@click.command("amdahl")
@click.option("--serial", type=click.FloatRange(0, 1), required=True, help="Share that runs on one worker.")
@click.option("--workers", type=click.IntRange(min=1), required=True, help="Number of workers.")
def command(serial: float, workers: int) -> None:
    """Show the speed-up by Amdahl's law."""
    click.echo(f"{1 / (serial + (1 - serial) / workers):.3g}")
