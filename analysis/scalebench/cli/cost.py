"""``scalebench cost BUNDLE...``."""

from __future__ import annotations

from pathlib import Path

import click

from scalebench.cli import EXIT_INPUT
from scalebench.cli.bundles import bundles_argument, open_all
from scalebench.cli.output import Real, fail, output_option, show


@click.command("cost")
@bundles_argument
@click.option("--per-worker-hour", type=Real(min=0, max=1e6), help="Another price than the experiment's.")
@click.option("--currency", default="USD", show_default=True, help="Of --per-worker-hour, in three letters.")
@click.option("--dataset-samples", type=click.IntRange(min=1), help="Samples of one epoch.")
@click.option("--epochs", type=click.IntRange(min=1), help="Epochs of the whole training.")
@output_option
def command(
    folders: tuple[Path, ...],
    per_worker_hour: float | None,
    currency: str,
    dataset_samples: int | None,
    epochs: int | None,
    output: str,
) -> None:
    """Show time and cost of every point with intervals, and which worker count is cheapest and which fastest."""
    from pydantic import ValidationError

    from scalebench.cost import cost
    from scalebench_api.experiment import Cost
    from scalebench_api.wording import plain

    price = None
    if per_worker_hour is not None:
        try:
            price = Cost(
                per_worker_hour=per_worker_hour, currency=currency, dataset_samples=dataset_samples, epochs=epochs
            )
        except ValidationError as error:
            first = error.errors()[0]
            option = str(first["loc"][0]).replace("_", "-")
            fail(f"--{option}: given {first['input']!r}; allowed: {plain(first['msg'])}", EXIT_INPUT)
    elif dataset_samples is not None or epochs is not None:
        fail("--dataset-samples and --epochs go with --per-worker-hour", EXIT_INPUT)
    show([cost(open_all(folders), price).table()], output)
