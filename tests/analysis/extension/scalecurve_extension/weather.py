import click


@click.command("weather")
def command() -> None:
    """Show the weather."""
    click.echo("dry")
