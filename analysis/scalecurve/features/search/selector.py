"""The search of ``run --search`` and ``plan --search``: what competes, how many trials that takes, and the rounds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.after_run import AfterRun
from scalecurve.cli.exit_codes import EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import complain, fail
from scalecurve.cli.selection import RunExperiment, Selector

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.curves.results import ScalingResult
    from scalecurve.planning.candidates import Candidates
    from scalecurve.render.table import Table
    from scalecurve_api.spec.experiment import ScalingExperiment
    from scalecurve_local import RunResult


class SearchRounds(AfterRun):
    """The rounds of a search, as its bundle keeps them (entry point ``scalecurve.after_run``)."""

    def tables(self, bundle: Bundle, measured: ScalingResult) -> Sequence[Table]:
        from scalecurve.features.search.bundle_file import SEARCH
        from scalecurve.features.search.tables import search_table

        record = bundle.companion(SEARCH)
        return (search_table(record),) if record else ()

    def lines(self, bundle: Bundle) -> Sequence[str]:
        from scalecurve.features.search.bundle_file import SEARCH
        from scalecurve.features.search.tables import search_in_words

        record = bundle.companion(SEARCH)
        return tuple(search_in_words(record)) if record else ()


SEARCH_ROUNDS = SearchRounds()


class SuccessiveHalving(Selector):
    """Rungs of short trials of all that can run (entry point ``scalecurve.selectors``)."""

    def candidates(self, file: Path, overlays: Sequence[Path], device_gb: float | None) -> Candidates:
        from scalecurve.checks.validation import validate, well_formed
        from scalecurve.planning.candidates import sift
        from scalecurve_api.validation.rules import check

        (checked,) = validate([file], overlays)
        valid = checked.experiments[0] if len(checked.experiments) == 1 and not checked.problems else None
        experiment = valid or well_formed(file, overlays)
        problems = list(checked.problems)
        if experiment is not None:
            candidates = sift(experiment, device_gb)
            problems = problems if not candidates.points and problems else check(candidates.experiment)
            if not problems:
                for warning in checked.warnings:
                    complain(str(warning))
                return candidates
        for problem in problems:
            click.echo(str(problem), err=True)
        if not problems:
            fail(f"{file}: holds {len(checked.experiments)} experiments; expected one", EXIT_INPUT)
        sys.exit(EXIT_INPUT)

    def run(self, candidates: Candidates, bundle: Path, resume: bool, run: RunExperiment) -> RunResult:
        from scalecurve.features.search.rounds import NothingMeasuredError, Search
        from scalecurve_api.validation.document import write_documents

        last: list[RunResult] = []

        def run_to_end(experiment: ScalingExperiment, folder: Path) -> bool:
            begun = resume and folder.exists()
            last.append(run(experiment, write_documents([experiment.wire()]), folder, resume=begun))
            return last[-1].status.phase.final and not last[-1].interrupted

        search = Search(candidates, bundle, run_to_end)
        try:
            finalists = search.finalists()
        except NothingMeasuredError as error:
            fail(str(error), EXIT_FAILED)
        if finalists is not None and run_to_end(search.final(finalists), bundle):
            search.record()
        return last[-1]

    def planned(self, candidates: Candidates) -> list[Table]:
        from scalecurve.features.search.plan import refusal_table, round_table

        refused = refusal_table(candidates)
        return [round_table(candidates), *([refused] if refused.rows else [])]


SUCCESSIVE_HALVING = SuccessiveHalving()
