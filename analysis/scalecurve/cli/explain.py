"""``scalecurve explain BUNDLE...|TRACE...``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import bundles_argument, doubts, open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, output_option, say, show
from scalecurve_api.problem import printable

if TYPE_CHECKING:
    from scalecurve.curves.explain import Explanation
    from scalecurve_api.spec.experiment import ScalingExperiment


@click.command("explain")
@bundles_argument
@click.option(
    "--test",
    "test_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write an experiment that tests the largest cause: the bundle's, with an axis more.",
)
@output_option
def command(folders: tuple[Path, ...], test_file: Path | None, output: str) -> None:
    """Show why curves bend: the lost efficiency of every point as terms that add up to it, with their evidence.

    After the table stands what takes most at the largest worker count, what it is worth, and what may help.

    TRACE.json[.gz], of torch.profiler, one file for each rank: what the traced steps are made of.
    """
    from scalecurve.curves.chrome_traces import is_trace
    from scalecurve.curves.explain import explain

    if any(map(is_trace, folders)):
        _explain_traces(folders, test_file, output)
        return
    bundles = open_all(folders)
    explanation = explain(bundles)
    advice = list(explanation.advice())
    show(explanation.tables(), output, {"advice": advice}, doubts(bundles, included=True))
    if output in ("table", "md"):
        for line in advice:
            say(line)
    if test_file is not None:
        if len(bundles) != 1 or bundles[0].experiment is None:
            fail("--test takes one bundle that has its experiment", EXIT_INPUT)
        _write_test(test_file, explanation, bundles[0].experiment)


def _explain_traces(files: tuple[Path, ...], test_file: Path | None, output: str) -> None:
    from scalecurve.curves.chrome_traces import TraceError, is_trace, read_traces
    from scalecurve.curves.traces import trace_tables

    if others := [file for file in files if not is_trace(file)]:
        fail(f"{others[0]}: got a bundle beside traces; expected either", EXIT_INPUT)
    if test_file is not None:
        fail("--test takes one bundle that has its experiment, and no trace", EXIT_INPUT)
    try:
        point, notes = read_traces(files)
    except TraceError as error:
        fail(str(error), EXIT_INPUT)
    show(trace_tables([point], notes), output)


def _write_test(file: Path, explanation: Explanation, experiment: ScalingExperiment) -> None:
    from scalecurve.curves.explain import experiment_that_tests
    from scalecurve_api.validation.document import write_documents

    test = experiment_that_tests(explanation, experiment)
    if test is None:
        fail("no axis of this program tests what takes most here; see the lines above", EXIT_INPUT)
    if file.exists():
        fail(f"{file} exists already; --test writes a new file", EXIT_INPUT)
    try:
        file.write_text(write_documents([test.wire()]))
    except OSError as error:
        fail(f"{file}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
    axes = [path for path in test.spec.matrix if path not in experiment.spec.matrix]
    click.echo(printable(f"{file}: the experiment with {axes[0]} varied"), err=True)
