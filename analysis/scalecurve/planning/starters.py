"""First experiments for a machine: templates, and which of them to run. Pure."""

from dataclasses import dataclass
from importlib.resources import files
from string import Template

from scalecurve_api.text import count

_MOST = 8


@dataclass(frozen=True)
class Starter:
    """One experiment of the quickstart: its name, its YAML, and why it is this one."""

    name: str
    text: str


def starters(gpus: int, cores: int) -> tuple[list[Starter], str]:
    """The experiments for a machine with these GPUs and usable cores, and a sentence on the choice.

    Raises ValueError for a machine with one core and fewer than two GPUs: nothing can scale there.
    """
    if gpus < 2 and cores < 2:
        raise ValueError("this machine has one core and fewer than two GPUs; a scaling experiment needs two workers")
    device, counts = ("gpu", worker_counts(gpus)) if gpus >= 2 else ("cpu", worker_counts(min(cores, 4)))
    spelled = ", ".join(map(str, counts[:-1])) + f" and {counts[-1]}"
    if gpus >= 2:
        choice = f"{count(gpus, 'GPU')}: ResNet-50 in bf16 on {spelled} of them"
    else:
        why = "one GPU cannot show scaling" if gpus else "no GPU"
        choice = f"{why}, so CPU cores act as workers; a CIFAR ResNet on {spelled} of {count(cores, 'core')}"
    names = {"quickstart": device, "quickstart-digits": "digits"}
    starters = [_starter(template, name, counts, device) for name, template in names.items()]
    return starters, f"{choice}, and digit images trained to accuracy"


def usable_cores(physical: int, threads: int) -> int:
    """How many cores can stand for workers; ``threads`` is how many hardware threads may be busy at once.

    Physical ones, as two threads of a core do not do twice the work; the threads of a machine that has one core, as
    many a rented machine of two has.
    """
    return threads if physical < 2 else min(physical, threads)


def worker_counts(most: int) -> list[int]:
    """Powers of two up to ``most``, and at most 8: a quickstart must be quick."""
    counts = [1]
    while counts[-1] * 2 <= min(most, _MOST):
        counts.append(counts[-1] * 2)
    return counts


def _starter(template: str, name: str, counts: list[int], device: str) -> Starter:
    text = (files(__package__) / f"{template}.yaml").read_text(encoding="utf-8")
    filled = Template(text).substitute(
        name=name, workers=", ".join(map(str, counts)), device=device, cpu_global=4 * counts[-1]
    )
    return Starter(name, filled)
