"""The report as one JSON document."""

from scalecurve.render.table import to_json
from scalecurve.reporting.content import Content


def tree(content: Content) -> str:
    """Subjects, headlines, warnings, sentences and tables; plots are files of their own."""
    return to_json(
        {
            "title": content.title,
            "subjects": list(content.subjects),
            "headlines": list(content.headlines),
            "warnings": list(content.warnings),
            "methods": [sentence for section in content.sections for sentence in section.sentences],
            "tables": {table.name: table.plain() for table in content.tables},
        }
    )
