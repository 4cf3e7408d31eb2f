"""What the site adds to the pages. `make docs` builds it strictly; here are its hooks."""

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import scalecurve
from scalecurve.cli.verbs import verbs
from tools.docs import hooks, live

ROOT = Path(__file__).parents[1]


def rewritten(markdown: str, on_site: frozenset[str] = frozenset()) -> str:
    files = SimpleNamespace(get_file_from_path=lambda path: path in on_site or None)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/install.md"))
    return hooks.on_page_markdown(markdown, page, SimpleNamespace(repo_url="https://repository"), files)


def test_links_out_of_the_site_lead_into_the_repository():
    assert rewritten("[a](../../LICENSE)") == "[a](https://repository/blob/main/LICENSE)"
    assert rewritten("[a](../../manifests/base#x)") == "[a](https://repository/tree/main/manifests/base#x)"


def test_other_links_stay():
    for link in ("[a](../index.md)", "[a](../no-such-file.md)", "[a](https://elsewhere/x)", "[a](#here)"):
        assert rewritten(link, frozenset({"index.md"})) == link


def test_every_verb_is_on_the_page_of_the_command_line():
    page = rewritten(hooks.VERBS_MARKER)
    assert [verb for verb in verbs() if f"## scalecurve {verb}\n" not in page] == []
    assert "\n### scalecurve predict paleo\n" in page
    assert "| `-o, --output" in page


def test_every_function_is_on_the_page_of_python():
    page = rewritten(hooks.FUNCTIONS_MARKER).splitlines()
    assert "::: scalecurve.bundle.open.open_bundle" in page
    assert len([line for line in page if line.startswith("::: ")]) == len(scalecurve.__all__) - 1, "all but __version__"


@pytest.mark.parametrize("name", [name for name in scalecurve.__all__ if name != "__version__"])
def test_a_function_says_what_it_takes_and_gives(name: str) -> None:
    function = getattr(scalecurve, name)
    text = inspect.getdoc(function) or ""
    first = text.split(maxsplit=1)[0]
    assert first.isalpha()
    assert not first.endswith("s"), "an imperative"
    parameters = [f"\n    {'**' * (each.kind is each.VAR_KEYWORD)}{each.name}: " for each in _parameters(function)]
    assert [each for each in parameters if each not in text.partition("\nArgs:")[2]] == []
    assert "\nReturns:\n    " in text


def _parameters(function: object) -> list[inspect.Parameter]:
    assert callable(function)
    return list(inspect.signature(function).parameters.values())


def test_live_reports_are_framed():
    page = live.expand_markers("a\n\n<!-- live: resnet50-h200 -->\n", "../")
    assert f'src="../{live.REPORTS[0].path}"' in page
    assert f'title="{live.REPORTS[0].title}"' in page
    assert page.count("../live/resnet50-h200.html") == 2, "the frame, and a link"
    with pytest.raises(KeyError):
        live.expand_markers("<!-- live: nothing -->", "")


def test_every_live_report_is_on_a_page_and_its_bundle_is_there():
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert {found[1] for found in live.MARKER.finditer(pages)} == {each.name for each in live.REPORTS}
    assert all((ROOT / each.bundle).is_file() for each in live.REPORTS)


@pytest.mark.parametrize(
    ("source", "to_root"),
    [("index.md", ""), ("live.md", "../"), ("studies/README.md", "../"), ("how-to/install.md", "../../")],
)
def test_the_way_from_a_page_to_the_root(source: str, to_root: str) -> None:
    assert hooks.path_to_root(source) == to_root


def test_every_page_stands_in_the_navigation():
    """mkdocs would say so too; this needs no mkdocs."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]
    listed = [page for part in navigation for page in ([part] if isinstance(part, str) else next(iter(part.values())))]
    # Reports that a reader wrote beside the bundles, with the commands of the pages; git ignores them.
    written = (ROOT / "docs/evidence").glob("**/*-report/*.md")
    there = {*(ROOT / "docs").rglob("*.md")} - {*written}
    pages = {str(path.relative_to(ROOT / "docs")) for path in there}
    assert sorted(listed) == sorted(pages)
