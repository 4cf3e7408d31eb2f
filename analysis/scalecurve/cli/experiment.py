"""``scalecurve experiment from MANIFEST``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, say


@click.group("experiment")
def command() -> None:
    """Make experiments of what a cluster runs already."""


@command.command("from")
@click.argument("manifest", type=click.Path(path_type=Path))
@click.option("--write", "target", metavar="FILE", type=click.Path(path_type=Path), help="Write it to this new file.")
def from_(manifest: Path, target: Path | None) -> None:
    """Make an experiment of a job's manifest: an MPIJob, PyTorchJob, JobSet, TrainJob or Job.

    Replicas and slots become worker counts, the pod becomes pod.template, the command gets placeholders where its
    options have numbers that the experiment varies. What is not carried over is named.
    """
    from scalecurve.checks.validation import check_text, read_file
    from scalecurve.planning.from_manifest import experiment_from
    from scalecurve.planning.manifest_jobs import ManifestError

    text, problem = read_file(manifest, "a YAML file with a job's manifest")
    if problem is not None:
        fail(str(problem), EXIT_INPUT)
    try:
        made = experiment_from(text, str(manifest))
    except ManifestError as error:
        fail(str(error), EXIT_INPUT)
    checked = check_text(made.text, f"the experiment of {manifest}")
    for wrong in checked.problems:
        click.echo(str(wrong), err=True)
    if checked.problems:
        sys.exit(EXIT_INPUT)
    if target is None:
        click.echo(made.text, nl=False)
        return
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(made.text)
    except FileExistsError:
        fail(f"--write {target}: exists; expected a new file", EXIT_INPUT)
    except OSError as error:
        fail(f"--write {target}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
    for note in made.notes:
        say(note)
    say(f"wrote {target}; next: scalecurve plan {target}")
