"""The ledgers of tests: malformed entries are named, and what stays open too long is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tools import flaky, landings
from tools.flaky import Flake, entry_of, function_exists, problems
from tools.landings import Landing, read_landings
from tools.ledger import LedgerError, read_entries

HERE = "tests/test_flaky.py::test_the_ledger_is_in_order"
NOW = [Landing(number, f"{number:040x}", "2026-11-24") for number in range(1, 8)]


def flake(**changed: object) -> Flake:
    fields = {"test": HERE, "landing": 7, "seen": 1, "said": "waited", "class": "short-wait", "mended": ""}
    return Flake.model_validate({**fields, **changed})


def written(folder: Path, text: str) -> Path:
    path = folder / "flaky.toml"
    path.write_text(text)
    return path


def test_the_ledger_is_in_order() -> None:
    assert flaky.main() == 0


@pytest.mark.parametrize(
    ("flakes", "problem"),
    [
        ([flake()] * 9, "9 entries are open, allowed: 8; mend some before anything else"),
        ([flake(seen=3)], f"{HERE}: seen 3 times and still open, allowed: 2; mend it now"),
        ([flake(landing=3)], f"{HERE}: open for 4 landings, allowed: 3; mend it now"),
        ([flake(landing=8)], f"{HERE}: landing: got 8, allowed: 1 to 7, as in .ci/landings"),
        (
            [flake(mended="0" * 40)],
            f"{HERE}: mended: got {'0' * 40}, allowed: a commit before HEAD, or nothing",
        ),
        (
            [flake(test=f"{HERE}_any_more")],
            f"{HERE}_any_more: no such test; remove the entry, or follow the test's new name",
        ),
    ],
)
def test_what_is_out_of_order_is_named(flakes: list[Flake], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaky, "history_is_complete", lambda: True)
    assert list(problems(flakes, NOW)) == [problem]


def test_what_is_mended_or_young_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flaky, "history_is_complete", lambda: True)
    monkeypatch.setattr(flaky, "is_ancestor", lambda commit: True)
    kept = [flake(seen=2, landing=4), *[flake(mended="1" * 40, seen=5, landing=1)] * 9]
    assert list(problems(kept, NOW)) == []


def test_every_malformed_field_is_named_with_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[[flake]]\ntest = "test_it"\nlanding = "2"\nseen = 0\nsaid = "x"\nclass = "bad luck"\nowner = "me"\n'
    assert flaky.main(written(tmp_path, text)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": flake 1: ")[2].partition(";")[0] for line in lines] == [
        "test: got 'test_it'",
        "landing: got '2'",
        "seen: got 0",
        "class: got 'bad luck'",
        "mended: got nothing",
        "owner: got 'me'",
    ]
    assert "'short-wait'" in lines[3]


def test_another_table_and_broken_toml_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=r"flaky.toml: flakes: got an unknown table, allowed: \[\[flake\]\]"):
        read_entries(written(tmp_path, "[[flakes]]\n"), "flake", Flake)
    with pytest.raises(LedgerError, match=r"flaky.toml: .*line 1"):
        read_entries(written(tmp_path, "[[flake]\n"), "flake", Flake)


def test_a_test_exists_by_its_file_its_class_and_its_function() -> None:
    assert function_exists(f"{HERE}[case-1]")
    assert not function_exists("tests/test_flaky.py::TestNone::test_it")
    assert not function_exists("tests/test_flakes.py::test_it")


def test_a_known_flake_is_counted_on_and_open_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = entry_of(HERE, 'said "this"\nand that')
    monkeypatch.setattr(flaky, "FILE", written(tmp_path, first.replace('mended = ""', f'mended = "{"1" * 40}"')))
    assert entry_of(HERE, "x") == first.replace("seen = 1", "seen = 2").replace('said \\"this\\" and that', "x")


def test_a_line_that_is_no_landing_is_refused() -> None:
    good = f"1 {'a' * 40} 2026-11-24\n"
    assert read_landings(good) == [Landing(1, "a" * 40, "2026-11-24")]
    assert read_landings()[0].number == 1
    for text, line in ((good * 2, 2), (good.replace("2026", "26"), 1)):
        with pytest.raises(ValueError, match=rf"^\.ci/landings:{line}: got .*, allowed: `{line} COMMIT YYYY-MM-DD`"):
            read_landings(text)
    with pytest.raises(ValueError, match="allowed: at least one landing"):
        read_landings("")


def test_landings_are_commits_of_this_history() -> None:
    if not landings.history_is_complete():
        pytest.skip("this clone has not all commits: git fetch --unshallow")
    commits = [landing.commit for landing in read_landings()]
    assert all(landings.is_ancestor(commit) for commit in commits)
    assert all(landings.is_ancestor(a, b) for a, b in itertools.pairwise(commits))
