"""Compare the claims on every page with what was computed, and count the numbers that are bound to nothing."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import ROOT
from tools.claims import recompute
from tools.claims.claims_file import ClaimsFile, DatedClaim, DatedPage
from tools.claims.marks import BrokenMark, differs, marks, replaced, words
from tools.claims.numbers import Number, measured, places, repeats, within
from tools.claims.printed import PAGES, printed_rows

OLD = datetime.timedelta(days=90)
"""Age at which a claim that only a program can measure again is named."""
_PAGES = ("*.md", "docs/**/*.md", "charts/**/*.md", "examples/**/*.md")
_LEFT_ALONE = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "LICENSE.md", "THIRD_PARTY_NOTICES.md", "SECURITY.md")


@dataclass
class CheckedPage:
    """A page as it stands, and what was found on it."""

    path: Path
    text: str
    bound: int = 0
    dated: int = 0
    unbound: list[Number] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()


def check(file: ClaimsFile, *, write: bool) -> list[str]:
    """What is out of order, a line each; ``write`` puts the computed texts on the pages first."""
    found: list[str] = []
    texts: dict[str, str] = {each.id: each.text for each in file.dated}
    for claim in file.claims:
        try:
            texts[claim.id] = recompute.text(claim)
        except recompute.ClaimError as error:
            found.append(f"claims.toml: {error}")
    pages = [CheckedPage(path, path.read_text(encoding="utf-8")) for path in paths()]
    used: set[str] = set()
    for page in pages:
        if write and (text := replaced(page.text, texts)) != page.text:
            page.path.write_text(text, encoding="utf-8")
            page.text = text
            print(f"written: {page.name}")
        found += drift(page, texts, used)
        found += _stale(page, file)
        _count(page, file)
    found += [f"claims.toml: {name}: on no page" for name in texts if name not in used]
    found += _ceilings(pages, file)
    print(_summary(pages))
    for dated in _old([*file.dated, *file.dated_pages], datetime.datetime.now(datetime.UTC).date()):
        name = dated.id if isinstance(dated, DatedClaim) else dated.page
        print(f"old: {name}: {dated.program} ran on {dated.date}, on {dated.machine}")
    return found


def paths() -> list[Path]:
    """The pages that people read, in order."""
    found = [path for pattern in _PAGES for path in ROOT.glob(pattern)]
    return sorted(path for path in found if path.name not in _LEFT_ALONE)


def drift(page: CheckedPage, texts: Mapping[str, str], used: set[str]) -> Iterator[str]:
    """Claims of a page that say other than was computed, and that nothing computes; notes those that are ``used``."""
    try:
        found = marks(page.text)
    except BrokenMark as error:
        yield f"{page.name}: {error}"
        return
    page.bound = len(found)
    for mark in found:
        used.add(mark.id)
        if mark.id not in texts:
            yield f"{page.name}:{mark.line}: claim {mark.id}: not in claims.toml"
        elif differs(mark.text, texts[mark.id]):
            said, computed = (" ".join(words(each)) for each in (mark.text, texts[mark.id]))
            yield f"{page.name}:{mark.line}: claim {mark.id}: the page says {said!r}, computed is {computed!r}"


def _ceilings(pages: Sequence[CheckedPage], file: ClaimsFile) -> Iterator[str]:
    """Pages with more unbound numbers than recorded, or with fewer: then the record is lowered."""
    ceilings = {each.page: each.numbers for each in file.unbound}
    for page in pages:
        allowed = ceilings.get(page.name, 0)
        if len(page.unbound) < allowed:
            yield f"claims.toml: unbound: {page.name}: got {allowed}, expected {len(page.unbound)}: lower it"
        if len(page.unbound) > allowed:
            yield f"{page.name}: {len(page.unbound)} numbers bound to nothing; allowed: {allowed}"
            yield from (f"  {page.name}:{each.line}: {each.text}: {each.context}" for each in page.unbound)
    names = {page.name for page in pages}
    yield from (f"claims.toml: unbound: {name}: no such page" for name in ceilings if name not in names)


def _count(page: CheckedPage, file: ClaimsFile) -> None:
    """Sort the numbers outside marks: stated, computed or repeated, measured on a stated day, or unbound."""
    rows = {row.line for row in printed_rows(page.text)} if page.path in PAGES else set()
    days = [each for each in file.dated_pages if each.page == page.name]
    whole = any(not each.sections and not each.texts for each in days)
    sections = {heading for each in days for heading in each.sections}
    of_a_day = places(page.text, [text for each in days for text in each.texts])
    stated = [each for each in file.stated if each.page in ("*", page.name)]
    columns = {name for each in stated for name in each.columns}
    texts = places(page.text, [text for each in stated for text in each.texts])
    again = [text for each in file.repeated if each.page == page.name for text in each.texts]
    again += [text for each in file.asserted if each.page == page.name for text in each.texts]
    computed_again = places(page.text, again)
    for number in measured(page.text):
        if within(number, texts) or number.column in columns:
            continue
        if number.line in rows or within(number, computed_again):
            page.bound += 1
        elif whole or sections & set(number.sections) or within(number, of_a_day):
            page.dated += 1
        else:
            page.unbound.append(number)


def _stale(page: CheckedPage, file: ClaimsFile) -> Iterator[str]:
    """Entries of a page that name words or headings it does not have, and repeated numbers that are nowhere else."""
    mine = [
        *((each.texts, "stated") for each in file.stated if each.page == page.name),
        *((each.texts, "dated-page") for each in file.dated_pages if each.page == page.name),
        *((each.texts, "repeated") for each in file.repeated if each.page == page.name),
        *((each.texts, "asserted") for each in file.asserted if each.page == page.name),
    ]
    for texts, kind in mine:
        yield from (
            f"claims.toml: {kind}: {page.name}: not on the page: {text!r}"
            for text in texts
            if not places(page.text, [text])
        )
    headings = {line.lstrip("#").strip() for line in page.text.splitlines() if line.startswith("#")}
    for each in file.dated_pages:
        if each.page == page.name:
            missing = [name for name in each.sections if name not in headings]
            yield from (f"claims.toml: dated-page: {page.name}: no heading {name!r}" for name in missing)
    for repeat in file.repeated:
        if repeat.page == page.name:
            source = (ROOT / repeat.of).read_text(encoding="utf-8") if repeat.of else computed(page)
            yield from (
                f"claims.toml: repeated: {page.name}: {text!r} is not what {repeat.of or 'its tables'} has"
                for text in repeat.texts
                if not repeats(text, source)
            )


def computed(page: CheckedPage) -> str:
    """What a page shows that is computed again: its claims, and the tables below the commands that print them."""
    rows = [" ".join(row.cells) for row in printed_rows(page.text)] if page.path in PAGES else []
    return "\n".join([*rows, *(mark.text for mark in marks(page.text))])


def _summary(pages: Sequence[CheckedPage]) -> str:
    bound, dated, loose = (sum(each) for each in zip(*((p.bound, p.dated, len(p.unbound)) for p in pages), strict=True))
    return (
        f"{bound + dated + loose} measured numbers on {len(pages)} pages: {bound} computed again, "
        f"{dated} of a stated day, {loose} bound to nothing yet"
    )


def _old(dated: Sequence[DatedClaim | DatedPage], today: datetime.date) -> list[DatedClaim | DatedPage]:
    return [each for each in dated if today - each.date > OLD]
