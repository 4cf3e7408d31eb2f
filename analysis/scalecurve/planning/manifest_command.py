"""What a job's container starts -> an experiment's workload: no launcher, and placeholders for its numbers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scalecurve.planning.script_command import CommandError, ScriptCommand, parse_command
from scalecurve_api.programs.workload import PROGRAMS, Launcher

_SHELL = re.compile(r"(?:ba|da|a|z|k)?sh")
_LAUNCHER = re.compile(
    r"(?P<before>^|[;&|]\s*|\bexec\s+)(?P<words>(?:[^\s;&|]{0,200}/)?(?:torchrun|mpirun|mpiexec|deepspeed|accelerate\s+launch"
    r"|python[\d.]*\s+-m\s+torch\.distributed\.(?:run|launch))\s[^;&|\n]*)",
    re.MULTILINE,
)
_SHELL_ONLY = re.compile(r"[$`;&|<>*?()\n]")
_SETTING = re.compile(r"\s*(?:set\s+[-+]\S+.*|#.*|)")
_NODES = ("nnodes", "num-nodes", "num-machines", "node-rank", "machine-rank")
_RANKS = ("nproc-per-node", "num-processes", "num-gpus")
_SUBSTITUTED = re.compile(r"\$\([^()\n]*(?:\([^()\n]*\)?[^()\n]*\)?)?\)|`[^`\n]*`")
"""What the shell puts in place of a command or a sum, to two levels of parentheses."""
_WORD = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""")
_COMPUTED = re.compile("[$\ue000]")
_HOSTS = {
    "hostfile": 1, "machinefile": 1, "H": 1, "host": 1, "N": 1, "npernode": 1, "ppn": 1, "prefix": 1, "wdir": 1,
    "gmca": 2, "display-map": 0, "merge-stderr-to-stdout": 0, "output-filename": 1, "timeout": 1, "verbose": 0,
}  # fmt: skip
"""Options of mpirun that say where ranks run, or what is printed -> words that follow each."""
_ONE_WORD = ("np", "n", "c", "x", "bind-to", "map-by", "rank-by")
_BRACED = re.compile(r"(?<![${])\{([A-Za-z_][\w.]*(?:/\d+)?)\}(?!\})")
_OPTION = (
    r"(?P<option>(?<![\w-])-{{0,2}}(?:[\w-]{{1,64}}\.){{0,8}}(?:{names}))(?:=|[\0 ]+)"
    r"(?P<number>\d{{1,9}})(?![\w.])"
)
_PER_WORKER = re.compile(
    _OPTION.format(
        names=r"(?:per[-_]device[-_]train|micro|local|device|per[-_]gpu|train)?[-_]?batch(?:[-_]size)?"
        r"(?:[-_]per[-_](?:gpu|device))?|bs"
    )
)
_GLOBAL = re.compile(_OPTION.format(names=r"(?:global|total)[-_]batch(?:[-_]size)?"))
_COUNTS = {
    "nodes": re.compile(_OPTION.format(names=r"nnodes|num[-_]nodes")),
    "workersPerNode": re.compile(
        _OPTION.format(names=r"(?:n|num[-_])?gpus(?:[-_]per[-_]node)?|n?proc[-_]per[-_]node|devices")
    ),
    "workers": re.compile(_OPTION.format(names=r"world[-_]size|num[-_]workers[-_]total")),
}


@dataclass
class Started:
    """The fields of ``spec.workload`` that the command makes, and what a person must know of them."""

    workload: dict[str, Any]
    env: dict[str, str] = field(default_factory=dict)
    ranks: int | None = None
    """All ranks, or those of a node, as the launcher was told."""
    batch: dict[str, int] = field(default_factory=dict)
    """``perWorker`` or ``global``, where an option of the command was taken for it."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_benchmark(self) -> bool:
        return str(self.workload["program"]) != "custom"


def started(words: Sequence[str], launcher: Launcher) -> Started:
    """What a container's command and args start; ``launcher`` starts the ranks where the command names none.

    Raises:
        CommandError: there is no command, or its launcher has an option that no experiment can carry.
    """
    if not words:
        raise CommandError(
            "the container states no command, and its image is not looked into: state it in the manifest"
        )
    at = _script_at(words)
    if at is None:
        return _make_program(_parse_words(list(words), launcher))
    script = re.sub(r"\\\n\s*", "", words[at]).strip()
    lines = [line for line in script.splitlines() if not _SETTING.fullmatch(line)]
    plain = lines[0].strip().removeprefix("exec ") if len(lines) == 1 else ""
    if plain and not _SHELL_ONLY.search(plain):
        return _make_program(_parse_words(_split(plain), launcher))
    return _parse_shell_script(list(words[:at]), script, launcher)


def insert_placeholders(program: Started, numbers: Mapping[str, int]) -> Started:
    """The same with placeholders where an option has one of ``numbers``, by placeholder."""
    if program.is_benchmark:
        return program
    text = "\0".join(program.workload["command"])
    for name, pattern, key in (("globalBatch", _GLOBAL, "global"), ("batchPerWorker", _PER_WORKER, "perWorker")):
        match = pattern.search(text)
        if match and int(match["number"]) and not program.batch:
            program.batch[key] = int(match["number"])
            text = _put(text, match, name, program)
    for name, pattern in _COUNTS.items():
        for match in reversed(list(pattern.finditer(text))):
            if int(match["number"]) == numbers[name] and numbers["workers"] > 1:
                text = _put(text, match, name, program)
    program.workload["command"] = text.split("\0")
    return program


def _put(text: str, match: re.Match[str], name: str, program: Started) -> str:
    program.notes.append(f"{match['option']} {match['number']} of the command is {{{name}}} now; is it that?")
    return f"{text[: match.start('number')]}{{{name}}}{text[match.end('number') :]}"


def _script_at(words: Sequence[str]) -> int | None:
    """Which of the words is the text that a shell is told to run."""
    if not _SHELL.fullmatch(words[0].rpartition("/")[2]):
        return None
    told = False
    for at, word in enumerate(words[1:], start=1):
        if not word.startswith(("-", "+")):
            return at if told else None
        told |= bool(re.fullmatch(r"-[a-z]*c[a-z]*", word))
    return None


def _parse_shell_script(shell: list[str], script: str, launcher: Launcher) -> Started:
    """The script with its launcher taken out of it."""
    inside: list[str] = []

    def hide(match: re.Match[str]) -> str:
        inside.append(match[0])
        return f"\ue000{len(inside) - 1}\ue001"

    def restore(text: str) -> str:
        return re.sub("\ue000(\\d+)\ue001", lambda match: inside[int(match[1])], text)

    masked = _SUBSTITUTED.sub(hide, script.replace("\ue000", ""))
    match = _LAUNCHER.search(masked)
    if match is None:
        program = Started(_custom([*shell, _literal(script)], launcher))
        program.notes.append(
            "the shell script runs once for each worker; if it starts ranks itself, take that out of it"
        )
        return program
    parsed = _parse_words(_split_with_quotes(match["words"]), launcher)
    if _find_program(parsed.words) is None:
        begin = "" if match["before"].endswith("exec ") else "exec "
        before, after = (_literal(masked[: match.start("words")]), _literal(masked[match.end("words") :]))
        text = restore(f"{before}{begin}{' '.join(parsed.words)}{after}")
        parsed = replace(parsed, words=(*shell, text))
    env = {name: "".join(_split(text)) for name, text in parsed.env.items() if not _COMPUTED.search(text)}
    left = [f"{name}={text}" for name, text in parsed.env.items() if name not in env]
    return _make_program(replace(parsed, env=env, dropped=tuple(map(restore, [*parsed.dropped, *left]))))


def _split_with_quotes(text: str) -> list[str]:
    """The words of a line with their quotes, for a shell that reads them again."""
    words = _WORD.findall(text)
    if len(_split(text)) != len(words):
        raise CommandError("the command cannot be read: its quotes are not closed")
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(f"the command cannot be read: {error}") from None


def _parse_words(words: list[str], launcher: Launcher) -> ScriptCommand:
    escaped = [_literal(word) for word in _remove_host_options(words)]
    program = parse_command(escaped)
    if program.launcher is Launcher.processes:
        return replace(program, launcher=launcher)
    return program


def _literal(text: str) -> str:
    """Braces that are the command's own, as placeholders are escaped."""
    return _BRACED.sub(r"{{\1}}", text)


def _remove_host_options(words: list[str]) -> list[str]:
    """The words without the launcher's options about nodes, which the experiment varies."""
    base = words[0].rpartition("/")[2]
    rest, kept = words[1:], [words[0]]
    if base in ("mpirun", "mpiexec"):
        while rest and rest[0].startswith("-"):
            name = rest[0].lstrip("-")
            taken = 1 + _HOSTS.get(name, {"mca": 2}.get(name, int(name in _ONE_WORD)))
            kept += [] if name in _HOSTS else rest[:taken]
            rest = rest[taken:]
        return kept + rest
    while rest and not rest[0].endswith(".py"):
        name, equals, value = rest[0].lstrip("-").partition("=")
        name = name.replace("_", "-") if rest[0].startswith("-") else ""
        value = value if equals else "".join(rest[1:2])
        if name in _NODES or (name in _RANKS and not value.isalnum()):
            rest = rest[1 if equals else 2 :]
        else:
            kept.append(rest.pop(0))
    return kept + rest


def _custom(command: list[str], launcher: Launcher) -> dict[str, Any]:
    return {"program": "custom", "command": command, "launcher": launcher.value}


def _make_program(parsed: ScriptCommand) -> Started:
    program = _find_program(parsed.words) or Started(_custom(list(parsed.words), parsed.launcher))
    program.env, program.ranks = dict(parsed.env), parsed.ranks
    if parsed.dropped:
        program.notes.append(f"the launcher's {', '.join(parsed.dropped)} has no effect here and is dropped")
    return program


def _find_program(words: Sequence[str]) -> Started | None:
    """The program that does what the command does; None where it is one of the user's own."""
    for program in PROGRAMS.loadable().values():
        if (made := program.of_command(words)) is not None:
            workload, left = made
            name = words[0].rpartition("/")[2]
            notes = [f"{name} is program {workload['program']}, in ScaleCurve's own image"]
            notes += [f"dropped from the benchmark's options: {', '.join(left)}"] if left else []
            return Started(workload, notes=notes)
    return None
