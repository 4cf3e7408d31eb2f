"""Compare the claims on every page with what was computed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tools import ROOT
from tools.claims import recompute
from tools.claims.claims_file import ClaimsFile, Quote

_CLAIM = re.compile(r"\{([^{}]+)\}")
_SPACE = r"\s+(?:> )?"  # lines of a quotation begin anew


def check(file: ClaimsFile, *, write: bool) -> list[str]:
    """What is out of order, a line each; ``write`` puts the computed texts on the pages."""
    found: list[str] = []
    texts: dict[str, str] = {}
    for claim in file.claims:
        try:
            texts[claim.id] = recompute.text(claim)
        except recompute.ClaimError as error:
            found.append(f"claims.toml: {error}")
    pages = {quote.page: (ROOT / quote.page).read_text(encoding="utf-8") for quote in file.quotes}
    for quote in file.quotes:
        pages[quote.page], faults = compared(pages[quote.page], quote, texts, write=write)
        found += faults
    used = {name for quote in file.quotes for name in _CLAIM.findall(quote.text)}
    found += [f"claims.toml: {claim.id}: on no page" for claim in file.claims if claim.id not in used]
    for name, page in pages.items():
        if page != (ROOT / name).read_text(encoding="utf-8"):
            (ROOT / name).write_text(page, encoding="utf-8")
            print(f"written: {name}")
    print(f"{len(used)} claims on {len(pages)} pages computed again")
    return found


def compared(page: str, quote: Quote, texts: Mapping[str, str], *, write: bool) -> tuple[str, list[str]]:
    """The page, with what was computed in place of what differs if ``write``; and what is out of order."""
    names = _CLAIM.findall(quote.text)
    if unknown := [name for name in names if name not in texts]:
        return page, [f"claims.toml: quote: {quote.page}: got claim {unknown[0]!r}, which is not computed"]
    matches = list(pattern(quote.text).finditer(page))
    if len(matches) != 1:
        return page, [f"{quote.page}: the words {quote.text!r} stand {len(matches)} times on it, expected once"]
    (match,) = matches
    if write:
        for number in range(len(names), 0, -1):  # the last first: places before it stay
            start, end = match.span(number)
            if _differs(match[number], texts[names[number - 1]]):
                page = page[:start] + texts[names[number - 1]] + page[end:]
        return page, []
    return page, list(_drift(page, quote, match, [(name, texts[name]) for name in names]))


def pattern(text: str) -> re.Pattern[str]:
    """What finds a quote on its page, with a group for each claim."""
    words = _CLAIM.split(text)
    literal = [_SPACE.join(map(re.escape, part.split(" "))) for part in words[::2]]
    end = "$" if text.startswith("|") else r"(?!\w)"  # a row is quoted in full
    return re.compile(r"((?:(?!\n\n).)+?)".join(literal) + end, re.DOTALL | re.MULTILINE)


def _drift(page: str, quote: Quote, match: re.Match[str], claims: list[tuple[str, str]]) -> Iterator[str]:
    for number, (name, computed) in enumerate(claims, start=1):
        if _differs(match[number], computed):
            line = page.count("\n", 0, match.start(number)) + 1
            said = " ".join(match[number].split())
            yield f"{quote.page}:{line}: claim {name}: the page says {said!r}, computed is {computed!r}"


def _differs(text: str, expected: str) -> bool:
    """Whether they differ in more than where their lines break."""
    return re.sub(r"\n> ?", "\n", text).split() != expected.split()
