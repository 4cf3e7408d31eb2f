"""Make a corpus of what others published.

python -m tools.corpus mlperf training_results_v5.0... --into FILE.corpus
python -m tools.corpus llm-foundry path/to/llm-foundry --into FILE.corpus
python -m tools.corpus torchtitan-benchmarks path/to/torchtitan --into FILE.corpus

A PATH is a checkout or a bare git repository, or of the tables one page. `scalecurve corpus add` joins corpora.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from scalecurve.cli.output import show
from scalecurve_api.text import count
from scalecurve_corpus.copies import joined
from scalecurve_corpus.corpus_file import write_corpus
from scalecurve_corpus.schema import Corpus, CorpusError
from scalecurve_corpus.tables import points_table
from tools.corpus import llm_foundry, torchtitan_tables
from tools.corpus.llm_foundry import import_llm_foundry
from tools.corpus.mlperf_points import import_results
from tools.corpus.torchtitan_tables import import_torchtitan

PUBLISHERS = {
    "mlperf": import_results,
    llm_foundry.NAME: import_llm_foundry,
    torchtitan_tables.NAME: import_torchtitan,
}


def main(arguments: Sequence[str]) -> int:
    """Read the repositories of a publisher, write one corpus, and print its points; return 2 for what is none."""
    parser = argparse.ArgumentParser(
        "python -m tools.corpus", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("publisher", choices=PUBLISHERS)
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path)
    parser.add_argument("--into", metavar="FILE", type=Path, required=True, help="corpus to write")
    chosen = parser.parse_args(arguments)
    try:
        imports = [PUBLISHERS[chosen.publisher](path) for path in chosen.paths]
        corpus, copies = joined(each.corpus for each in imports)
        write_corpus(corpus, chosen.into)
    except CorpusError as error:
        print(error, file=sys.stderr)
        return 2
    show([points_table(corpus.points)], "table")
    sources = [f"{each.name}: {each.url}, {each.retrieved}, license {each.license}" for each in corpus.sources]
    notes = [note for each in imports for note in each.notes]
    print("\n".join(["", *_refusal_lines(corpus), *notes, *copies, *sources, f"corpus: {chosen.into}"]))
    return 0


def _refusal_lines(corpus: Corpus) -> list[str]:
    """A line for each reason why a unit is not proved, with the number of points."""
    reasons = Counter(point.reason for point in corpus.points if point.unit is None)
    if not reasons:
        return []
    proved = len(corpus.points) - reasons.total()
    first = f"{proved} of {len(corpus.points)} points have a proved unit; the others have no throughput"
    return [first, *(f"{count(number, 'point')}: {reason}" for reason, number in reasons.most_common())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
