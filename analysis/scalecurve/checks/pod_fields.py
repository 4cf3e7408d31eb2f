"""The fields of ``spec.pod.template`` by their names, at every depth, where Kubernetes' client is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scalecurve_api.problem import Path, Problem, ProblemCode, Violation
from scalecurve_api.validation.document import Document, read_documents
from scalecurve_api.validation.overlay import lay_over
from scalecurve_api.validation.validate import Validated

_POD: Path = ("spec", "pod", "template", "spec")
_UNREAD = Violation(
    ProblemCode.not_supported,
    "names of its fields are not checked without the Kubernetes client: pip install -e '.[cluster]' in the clone",
    names_value=False,
)


def check_pod_fields(validated: Validated, text: str, file: str, overlays: Sequence[Document] = ()) -> Validated:
    """Add what is wrong with names in the templates of a text's documents; a warning where it cannot be known."""
    documents = [lay_over(document, overlays)[0] for document in read_documents(text, file)[0]]
    pods = [(document, pod) for document in documents if (pod := _follow_path(document.value, _POD))]
    if not pods:
        return validated
    try:
        from scalecurve_kube.pod_schema import pod_problems  # Brings Kubernetes' client: slow, and optional.
    except ImportError:
        unread = Problem(_POD, None, _UNREAD, file=file, line=pods[0][0].place(_POD)[1])
        return replace(validated, warnings=(*validated.warnings, unread))
    said = {(problem.line, problem.path) for problem in validated.problems}
    wrong = []
    for document, pod in pods:
        for problem in pod_problems(pod, _POD):
            place, line = document.place(problem.path)
            if (line, problem.path) not in said:
                wrong.append(replace(problem, file=place, line=line))
    if not wrong:
        return validated
    problems = sorted([*validated.problems, *wrong], key=lambda each: (each.file != file, each.file, each.line or 0))
    return replace(validated, experiments=(), problems=tuple(problems))


def _follow_path(value: Any, path: Path) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
