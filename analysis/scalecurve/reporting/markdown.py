"""The report as Markdown, with links to its plot files."""

from collections.abc import Iterator

from scalecurve.render.table import markdown_text
from scalecurve.reporting.content import Content


def document(content: Content, image: str) -> str:
    """One page; ``image`` is the suffix of the plots that are linked."""
    return "\n".join(_lines(content, image)).rstrip("\n") + "\n"


def _lines(content: Content, image: str) -> Iterator[str]:
    yield f"# Scaling of {markdown_text(content.title)}"
    for subject in content.subjects:
        yield ""
        yield markdown_text(subject)
    yield ""
    yield from (f"- **{markdown_text(headline)}**" for headline in content.headlines)
    if content.warnings:
        yield ""
        yield from (f"> {markdown_text(warning)}  " for warning in content.warnings)
    for section in content.sections:
        yield ""
        yield f"## {section.title}"
        for plot in section.plots:
            yield ""
            yield f"![{markdown_text(plot.title)}](plots/{plot.name}.{image})"
            yield ""
            yield f"*{markdown_text(plot.caption)}*"
        for index, table in enumerate(section.tables):
            yield ""
            yield table.markdown(titled=index > 0 or table.title != section.title).rstrip("\n")
        if section.sentences:
            yield ""
            yield from (f"- {markdown_text(sentence)}" for sentence in section.sentences)
