"""Why a command that ended well left no record: what it forgot to call, as its journals show."""

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import PurePath

from scalecurve_api.programs.custom import CustomWorkload, Instrument
from scalecurve_api.record import journal
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count, few, plural

_STEP_WINDOW = struct.Struct("<ii")


def unfinished(trial: TrialSpec, recorded: Collection[int], journals: Mapping[int, bytes]) -> str | None:
    """The call that is missing on ranks without a record; ``journals`` are of ranks that called ``attach()``.

    None for built-in programs, and where every rank of ``recorded`` has its record.
    """
    missing = sorted(set(range(trial.point.workers)) - set(recorded))
    if not missing or not isinstance(trial.workload, CustomWorkload):
        return None
    script = _script(trial.workload.words)
    if absent := [rank for rank in missing if rank not in journals]:
        if trial.workload.instrument is Instrument.auto:
            return (
                f"no optimizer step of torch was seen in {script} on {_ranks(trial, absent)}: call attach() "
                "in it, or set workload.instrument: log to read the program's own numbers"
            )
        return f"{script} never called attach() on {_ranks(trial, absent)}"
    windows = min(_complete_windows(journals[rank], trial.measure.steps_per_window) for rank in missing)
    measured = f"{count(windows, 'window')} {plural(windows, 'was', 'were')} measured"
    return f"{measured}, but {script} never called finish() on {_ranks(trial, missing)}"


def _script(command: list[str]) -> str:
    scripts = [word for word in command if word.endswith(".py")]
    return PurePath(scripts[0] if scripts else command[0]).name


def _ranks(trial: TrialSpec, ranks: list[int]) -> str:
    return "any rank" if len(ranks) == trial.point.workers else f"rank {few(ranks)}"


def _complete_windows(data: bytes, steps: int) -> int:
    rows = journal.body(data)
    windows = Counter(_STEP_WINDOW.unpack_from(rows, at)[1] for at in range(0, len(rows), journal.ROW.size))
    return sum(window != journal.WARMUP_WINDOW and seen >= steps for window, seen in windows.items())
