"""Checks of installed packages, each under the name that makes a trial Invalid.

A package adds a check by an entry point in the group ``scalecurve.checks``::

    [project.entry-points."scalecurve.checks"]
    EnoughTokens = "my_package.checks:ENOUGH_TOKENS"
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scalecurve_api.record.fact_kind import CheckResult, known_kinds
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.trial_record import Check
from scalecurve_api.registry import Registry, RegistryError
from scalecurve_api.spec.trial import InvalidReason, TrialSpec


@dataclass(frozen=True)
class TrialCheck:
    """A check of an ended trial; None from ``check`` where it does not apply.

    A check that only warns does not make the trial Invalid.
    """

    check: Callable[[TrialSpec, Sequence[RankRecord], Outcome], CheckResult | None]
    only_warns: bool = False


CHECKS: Registry[TrialCheck] = Registry("scalecurve.checks", "check", TrialCheck, {})


def package_checks(trial: TrialSpec, ranks: Sequence[RankRecord], outcome: Outcome) -> Iterator[Check]:
    """Make every check of an installed package; one that fails by an exception could not be made."""
    for name in CHECKS.names():
        try:
            result = CHECKS.get(name).check(trial, ranks, outcome)
        except RegistryError as error:
            result = None, str(error)
        except Exception as error:  # of another package's code
            result = None, f"the check failed: {type(error).__name__}: {error}"
        if result is not None:
            yield Check(name=name, passed=result[0], detail=result[1])


def fact_checks(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Iterator[Check]:
    """Make the checks of every registered kind of fact."""
    for kind in known_kinds():
        for name, check in kind.checks.items():
            try:
                result = check(trial, ranks)
            except Exception as error:  # of another package's code
                result = None, f"the check failed: {type(error).__name__}: {error}"
            if result is not None:
                yield Check(name=name, passed=result[0], detail=result[1])


def find_divergences(trial: TrialSpec, ranks: Sequence[RankRecord]) -> Iterator[str]:
    """Yield what facts show of replicas that diverged; a kind of fact that fails by an exception is a warning."""
    for kind in known_kinds():
        try:
            said = kind.apart(trial, ranks) if kind.apart is not None else None
        except Exception as error:  # of another package's code
            warnings.warn(f"kind of fact {kind.name!r}: {type(error).__name__}: {error}", stacklevel=2)
            continue
        if said:
            yield said


def makes_invalid(check: Check) -> bool:
    """Whether a check did not pass and makes its trial Invalid."""
    if check.passed is not False:
        return False
    if InvalidReason.of(check.name) is not None:
        return True
    try:
        return check.name in CHECKS and not CHECKS.get(check.name).only_warns
    except RegistryError:
        return False
