"""How far repetitions differ on published systems (entry point ``scalecurve.repetition_noise``)."""

from scalecurve.planning.decisive import RepetitionNoise
from scalecurve_api.text import count
from scalecurve_corpus.acceptance import repetition_spread
from scalecurve_corpus.corpus_file import load_shipped
from scalecurve_corpus.schema import Corpus


def shipped_noise() -> list[RepetitionNoise]:
    """Collect that of the corpus that ships; see ``noise_of``."""
    return noise_of(load_shipped())


def noise_of(corpus: Corpus) -> list[RepetitionNoise]:
    """Collect how far repetitions differ in the median and in the noisiest tenth of published systems.

    Args:
        corpus: Published points.

    Returns:
        Both, or nothing where no system has enough runs.
    """
    spread = repetition_spread(corpus)
    if spread is None:
        return []
    systems = count(spread.points, "published system")
    return [
        RepetitionNoise(f"the median of {systems}", spread.median),
        RepetitionNoise(f"nine of ten of {systems}", spread.ninetieth),
    ]
