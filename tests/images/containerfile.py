"""A Containerfile as text: its instructions, its stages, and which of them an image is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.images import archives

Instruction = tuple[str, str]
"""A word in capitals, and the rest of it on one line"""


@dataclass(frozen=True)
class Stage:
    """What stands from one FROM to the next; what stands before the first is a stage without a base."""

    name: str
    base: str
    """a stage, an image, or an argument that names one"""
    instructions: tuple[Instruction, ...]

    @property
    def copied_from(self) -> set[str]:
        """Stages that it copies files from."""
        return {
            found for word, rest in self.instructions if word == "COPY" for found in re.findall(r"--from=(\S+)", rest)
        }


def instructions(text: str) -> Iterator[Instruction]:
    """Each instruction as (word, the rest), continued lines joined, without comments."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word.upper(), rest.strip()


def stages(text: str) -> list[Stage]:
    """All stages, the first being what stands before any FROM."""
    found: list[tuple[str, str, list[Instruction]]] = [("", "", [])]
    for word, rest in instructions(text):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append((name.strip(), base.strip(), []))
        found[-1][2].append((word, rest))
    return [Stage(name, base, tuple(inside)) for name, base, inside in found]


def needed(every: Sequence[Stage], last: Stage) -> list[Stage]:
    """The stages that ``last`` is made of, in their order: what it stands on, what it copies from, and the first."""
    named = {stage.name: stage for stage in every[1:] if stage.name}
    wanted, left = [every[0]], [last]
    while left:
        stage = left.pop()
        wanted.append(stage)
        left += [named[name] for name in {stage.base, *stage.copied_from} & set(named) if named[name] not in wanted]
    return [stage for stage in every if stage in wanted]


def stages_of(name: str) -> list[Stage]:
    """The stages that an image of this repository is made of, the last being the image."""
    image = archives.targets()[name]
    every = stages((archives.ROOT / image["dockerfile"]).read_text())
    return needed(every, next((stage for stage in every if stage.name == image.get("target")), every[-1]))


def instructions_of(name: str) -> list[Instruction]:
    """Those of all its stages, in order."""
    return [instruction for stage in stages_of(name) for instruction in stage.instructions]


def copied_to(name: str) -> list[str]:
    """Files and folders of the repository that its stages copy."""
    copies = [rest for word, rest in instructions_of(name) if word == "COPY" and not rest.startswith("--")]
    return [word for rest in copies for word in rest.split()[:-1]]
