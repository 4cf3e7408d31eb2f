"""What every reader of published results returns."""

from dataclasses import dataclass

from scalecurve_corpus.schema import Corpus


@dataclass(frozen=True)
class Imported:
    """A corpus that was read from a source; ``notes`` has a line for all that was skipped, refused or named twice."""

    corpus: Corpus
    notes: tuple[str, ...]
    runs: int
