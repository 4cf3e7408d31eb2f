"""The same runs under another name are one point; a table's points are told apart by their names."""

from dataclasses import replace

import pytest

from scalecurve_corpus.copies import joined, without_copies
from scalecurve_corpus.schema import Corpus, CorpusError, PublishedRun
from tests.corpus.test_corpus_file import POINT, SOURCE, TABLE_POINT

RUNS = (PublishedRun(1.7e9, 12.5, 2048.0, (0.125,)), PublishedRun(1.7e9 + 800, 12.4, 2050.0, (0.124,)))
FIRST = replace(POINT, runs=RUNS, aliases=())


def test_the_first_of_two_names_is_kept_and_names_the_other() -> None:
    points, notes = without_copies([FIRST, replace(FIRST, system="POWER")])
    assert [point.aliases for point in points] == [("Acme/POWER",)]
    assert "Acme/POWER" in notes[0]


def test_other_runs_or_another_benchmark_are_no_copy() -> None:
    others = [replace(FIRST, runs=RUNS[:1]), replace(FIRST, benchmark="rgat")]
    assert without_copies([FIRST, *others])[0] == [FIRST, *others]


def test_points_of_a_table_are_kept_unless_all_is_equal() -> None:
    other = replace(TABLE_POINT, system="16xH100")
    assert without_copies([TABLE_POINT, other])[0] == [TABLE_POINT, other]


def test_runs_that_two_rounds_published_are_one_point() -> None:
    later = replace(SOURCE, name="later")
    corpus, notes = joined([Corpus((SOURCE,), (FIRST,)), Corpus((later,), (replace(FIRST, source="later"),))])
    assert corpus.sources == (SOURCE, later)
    assert [point.aliases for point in corpus.points] == [("later:Acme/8xH100",)]
    assert len(notes) == 1


def test_two_sources_of_one_name_are_refused() -> None:
    with pytest.raises(CorpusError, match="round"):
        joined([Corpus((SOURCE,), ()), Corpus((replace(SOURCE, url="elsewhere"),), ())])


def test_overlaps_counts_runs_that_began_before_an_earlier_one_ended() -> None:
    assert FIRST.overlaps == 0
    early = replace(RUNS[1], started_at=1.7e9 + 60)
    assert replace(FIRST, runs=(RUNS[0], early)).overlaps == 1
