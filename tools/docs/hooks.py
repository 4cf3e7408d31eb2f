"""What the documentation site adds to docs/: live reports, the command line's reference, the project's places."""

import inspect
import os
import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tools.docs import live

ROOT = Path(__file__).resolve().parents[2]
VERBS_MARKER = "<!-- verbs -->"
FUNCTIONS_MARKER = "<!-- functions -->"
_LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")


def on_config(config: Any) -> Any:
    """Take the site's places from pyproject.toml."""
    places = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scalecurve"]
    config.site_url = places["documentation"] + "/"
    config.repo_url = places["repository"]
    config.repo_name = "GitHub"
    config.extra["published"] = places["published"]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the live reports."""
    from mkdocs.structure.files import File

    for each in live.REPORTS:
        files.append(File.generated(config, each.path, content=each.page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in what is generated; point links at files that are not on the site into the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        on_site = files.get_file_from_path(os.path.relpath(target, "docs"))
        if on_site or not (ROOT / target).exists():
            return match[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{match[1]}{config.repo_url}/{kind}/main/{target}{match[3]}"

    text = live.expand_markers(_LINK.sub(link, markdown), path_to_root(page.file.src_uri))
    for marker, content in ((VERBS_MARKER, verbs), (FUNCTIONS_MARKER, functions)):
        if marker in text:
            text = text.replace(marker, content())
    return text


def path_to_root(source: str) -> str:
    """From the address of a page to the site's root: a page other than an index is a folder of its own."""
    depth = source.count("/") + (posixpath.basename(source) not in ("index.md", "README.md"))
    return "../" * depth


def verbs() -> str:
    """Every verb of the command line with its options, as Markdown."""
    from scalecurve.cli import cli

    lines: list[str] = []
    context = click.Context(cli, info_name="scalecurve", **cli.context_settings)
    for name in cli.list_commands(context):
        lines += _command(cli.get_command(context, name), context, name, 2)
    return "\n".join(lines) + "\n"


def functions() -> str:
    """What `import scalecurve` offers, for mkdocstrings."""
    import scalecurve

    offered = [getattr(scalecurve, name) for name in scalecurve.__all__ if name != "__version__"]
    return "\n\n".join(f"::: {function.__module__}.{function.__qualname__}" for function in offered) + "\n"


def _command(command: click.Command | None, parent: click.Context, name: str, level: int) -> Iterator[str]:
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield from (f"{'#' * level} {context.command_path}", "")
    yield from ("```text", command.get_usage(context).removeprefix("Usage: "), "```", "")
    yield from (inspect.cleandoc(command.help or "").replace("\b\n", ""), "")
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if records:
        yield from ("| option | |", "|---|---|")
        yield from (f"| `{option.replace('|', ' or ')}` | {_cell(text)} |" for option, text in records)
        yield ""
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _command(command.get_command(context, child), context, child, level + 1)


def _cell(text: str) -> str:
    escaped = " ".join(text.split()).replace("<", "&lt;")
    return re.sub(r"([|\[\]])", r"\\\1", escaped)
