"""Bundles of one experiment over months, in the engines' own format: a session each."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from scalecurve_api.record.trial_record import Timeline, TrialRecord
from tests.analysis.synthetic import EPOCH_NS, Truth, experiment, write_bundle

WEEK_NS = 7 * 86_400 * 10**9
SESSION_SD = 0.005


def write_past(
    folder: Path,
    sessions: int,
    *,
    name: str = "nightly",
    workers: Sequence[int] = (1, 2),
    repetitions: int = 2,
    factor: Callable[[int, int], float] = lambda session, workers: 1.0,
    versions: Callable[[int], Mapping[str, str]] = lambda session: {},
    machine: Callable[[int], str] = lambda session: "node-0",
    seed: int = 0,
    session_sd: float = SESSION_SD,
    tables: bool = False,
    every_ns: int = WEEK_NS,
) -> list[Path]:
    """Weekly bundles; `factor` is a session's throughput over the usual one at a worker count."""
    of = experiment(name, modes=["weak"], workers=workers, repetitions=repetitions, windows=3, steps_per_window=10)
    shifts = np.random.default_rng(seed).standard_normal(sessions) * session_sd
    paths = []
    for session in range(sessions):

        def step_s(point: object, session: int = session) -> float:
            count = point.workers  # type: ignore[attr-defined]
            return float(0.1 * np.exp(shifts[session]) / factor(session, count))

        def dated(record: TrialRecord, session: int = session) -> TrialRecord:
            return moved(record, session * every_ns, machine(session), versions(session))

        truth = Truth(step_s=step_s, repetition_cv=0.001, step_cv=0.01)
        home = folder / f"{name}-{session:03}"
        paths.append(write_bundle(home, of, truth, seed=1000 * seed + session, tables=tables, change=dated))
    return paths


def moved(record: TrialRecord, later_ns: int, machine: str, versions: Mapping[str, str]) -> TrialRecord:
    """The record of a run that began later, on this machine, with these versions."""
    offset = record.timeline[0].at_ns - EPOCH_NS
    windows = [window.model_copy(update={"start_ns": window.start_ns + later_ns}) for window in record.windows]
    timeline = [Timeline(phase=entry.phase, at_ns=entry.at_ns + later_ns) for entry in record.timeline]
    assert offset >= 0
    topology = [rank.model_copy(update={"host": machine}) for rank in record.topology]
    update = {"windows": windows, "timeline": timeline, "topology": topology}
    return record.model_copy(update={**update, "versions": {**record.versions, **versions}})
