"""The operator's RBAC rules for the jobs of every runner, which `tools.generated` writes."""

from pathlib import Path

from scalecurve_api.spec.job_kinds import Runner

PATH = Path(__file__).parents[2] / "charts/scalecurve/files/job-rules.yaml"
VERBS = ("create", "get", "list", "watch", "delete")


def text() -> str:
    """One rule per API group."""
    groups: dict[str, list[str]] = {}
    for runner in sorted(Runner, key=lambda runner: (runner.job_kind.group, runner.job_kind.plural)):
        groups.setdefault(runner.job_kind.group, []).append(runner.job_kind.plural)
    rules = [
        f"- apiGroups: [{group}]\n  resources: [{', '.join(plurals)}]\n  verbs: [{', '.join(VERBS)}]\n"
        for group, plurals in groups.items()
    ]
    return "".join(rules)
