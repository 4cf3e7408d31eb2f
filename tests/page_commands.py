"""Does every command on the pages do what a stranger is told? Type them all, and see.

    python -m benchmarks.strangers_path here|cluster --in CLONE [--log FOLDER] [--table FILE] [PAGE...]

CLONE is a fresh clone after `make install`. Each command is typed into a fresh shell there, one page after the other:
with `here` those that need this machine alone, with `cluster` those for a cluster of real nodes, which come up first
and go down last. `strangers_path.yaml` has the order of pages, what stands for their placeholders, and why a command is
not typed. A file that a page shows (a block that begins with its name, as `# mine.yaml`) is written first. Outputs go
to the log folder, to be read: whether a command did what its page says is for a person to judge. Exit code 1 when one
failed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KNOWN = Path(__file__).with_suffix(".yaml")
PROGRAMS = ("make", "scalecurve", "kubectl", "helm", "python", "torchrun", "podman", "skopeo", "nsenter", "pre-commit")
_FIRST = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/\w+|{'|'.join(PROGRAMS)})(?=\s)|export |\. ")
_ON_CLUSTER = re.compile(
    r"kubectl |helm |nsenter |export KUBECONFIG| --cluster\b| -n [a-zA-Z]\w+|make cluster-(up|down)"
)
_NAMED = re.compile(r"# (\S+\.(?:yaml|py))\n")
_LIMIT_S = 900
Known = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One line to type, joined where it was continued."""

    page: str
    line: int
    text: str


@dataclass(frozen=True)
class Outcome:
    """What came of a command: `how` is `0`, another exit code, or why it was not typed."""

    command: Command
    typed: str
    how: str
    seconds: float


def commands(page: str, text: str) -> Iterator[Command]:
    """Commands of a page: of indented blocks, of fenced ones in no language or a shell's, and whole ones in a sentence.

    A block of Python that uses the library is one too.
    """
    for begin, block, language in _blocks(text):
        if language in ("", "sh", "console"):
            joined = re.sub(r"\s*\\\n\s*", " ", block)
            for offset, line in enumerate(joined.splitlines()):
                typed = re.split(r"\s{2,}#|\s{4,}", line.strip())[0]
                if _FIRST.match(typed):
                    yield from (Command(page, begin + offset, one) for one in _alternatives(typed))
        elif language == "python" and block.startswith("from scalecurve."):
            yield Command(page, begin, f"python - <<'END'\n{block}END")
    prose = re.sub(r"^```.*?^```$|^    [^\n]*$", lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
    for found in re.finditer(r"`([^`]+)`", prose):
        span = " ".join(found[1].split())
        if _FIRST.match(span) and (len(span.split()) > 2 or span.startswith("make ")):
            begin = prose.count("\n", 0, found.start()) + 1
            yield from (Command(page, begin, one) for one in _alternatives(span))


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """First line, content and language of each block; an indented one has no language."""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$|(?:^\n|\A)((?:    [^\n]*\n)+)", text, flags=re.M | re.S):
        group = 3 if found[3] else 2
        yield text.count("\n", 0, found.start(group)) + 1, found[group], found[1] or ""


def _alternatives(line: str) -> list[str]:
    """`scalecurve status|cost BUNDLE` is two commands."""
    found = re.search(r"(?<=scalecurve )\w+(?:\|\w+)+", line)
    if not found:
        return [line]
    return [line.replace(found[0], each.strip()) for each in found[0].split("|")]


def files(text: str) -> dict[str, str]:
    """Files that a page shows under their names."""
    return {
        found[1]: block
        for _, block, language in _blocks(text)
        if language and (found := _NAMED.match(block)) is not None
    }


def typed(command: Command, known: Known) -> tuple[str, str]:
    """What is typed for a command, and why it is not (empty: it is)."""
    where = f"{command.page}: {command.text}"
    for pattern, reason in known["left out"].items():
        if re.search(pattern, where):
            return command.text, reason
    text = command.text
    for pattern, stand_in in known["stand-ins"].items():
        page, _, placeholder = pattern.partition(": ")
        if page in (command.page, "*"):
            text = re.sub(rf"(?<![\w/.-]){re.escape(placeholder)}(?![\w/.-])", stand_in, text)
    return text, ""


def shell_environment(clone: Path, known: Known) -> dict[str, str]:
    """What a fresh shell has, with the clone's environment activated."""
    found = [str(path) for each in known["path"] for path in Path.home().glob(each.removeprefix("~/"))]
    return {
        "HOME": os.environ["HOME"],
        "PATH": ":".join([f"{clone}/.venv/bin", *found, os.environ["PATH"]]),
        "LANG": "C.UTF-8",
        **{name: os.path.expanduser(value) for name, value in known["environment"].items()},
    }


def run(line: str, clone: Path, environment: Mapping[str, str], log: Path) -> tuple[str, float]:
    """Type a line into a fresh shell in the clone; exit code and seconds."""
    begin = time.monotonic()
    with log.open("w") as output:
        output.write(f"$ {line}\n")
        output.flush()
        shell = subprocess.Popen(
            ["bash", "-c", line], cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = str(shell.wait(_LIMIT_S))
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            code = f"not ended after {_LIMIT_S} s"
    return code, time.monotonic() - begin


def steps(pages: Sequence[str], clone: Path, known: Known) -> Iterator[Command | tuple[str, str]]:
    """Commands of the pages in turn, and before those of a page its files: (name, content)."""
    for page in pages:
        text = (clone / page).read_text()
        yield from {**files(text), **known["files"].get(page, {})}.items()
        yield from (Command(page, 0, line) for line in known["before"].get(page, []))
        yield from (command for command in commands(page, text) if known["chosen"](command.text))
    yield from (Command("", 0, line) for line in known["last"])


def walk(pages: Sequence[str], clone: Path, log: Path, known: Known) -> Iterator[Outcome]:
    """Every command of the pages in turn; one that was typed before is not typed again."""
    done: dict[str, str] = {}
    environment = shell_environment(clone, known)
    for step in steps(pages, clone, known):
        if isinstance(step, tuple):
            (clone / step[0]).write_text(step[1])
            continue
        line, reason = typed(step, known)
        seconds = 0.0
        if not reason and line not in done:
            print(f"{len(done):3} {step.page}:{step.line}: {line}", file=sys.stderr, flush=True)
            done[line], seconds = run(line, clone, environment, log / f"{len(done):03}.txt")
            print(f"    {done[line]} after {seconds:.1f} s", file=sys.stderr, flush=True)
        yield Outcome(step, line, reason or done[line], seconds)


def table(outcomes: Sequence[Outcome]) -> str:
    """As Markdown."""
    rows = ["| page | command | exit code, or why it was not typed |", "|---|---|---|"]
    for each in outcomes:
        text, stood = (" ".join(one.replace("|", "\\|").split()) for one in (each.command.text, each.typed))
        shown = f"`{text}`" if stood == text else f"`{text}`, typed as `{stood}`"
        rows.append(f"| {each.command.page}:{each.command.line} | {shown} | {each.how} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("walk", choices=["here", "cluster"])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as docs/how-to/install.md; default: all")
    parser.add_argument("--in", dest="clone", type=Path, required=True, help="the fresh clone to type them in")
    parser.add_argument("--log", type=Path, default=Path("strangers-path"), help="folder of outputs")
    parser.add_argument("--table", type=Path, help="file for the table; default: standard output")
    parser.add_argument("--list", action="store_true", help="type nothing; print what would be")
    chosen = parser.parse_intermixed_args()
    known = yaml.safe_load(KNOWN.read_text())[chosen.walk]
    known["chosen"] = lambda text: bool(_ON_CLUSTER.search(text)) == (chosen.walk == "cluster")
    clone = chosen.clone.absolute()
    pages = chosen.pages or known["pages"]
    if chosen.list:
        for command in steps(pages, clone, known):
            if isinstance(command, Command):
                line, reason = typed(command, known)
                print(f"{command.page}:{command.line}: {line}" + (f"   -- {reason}" if reason else ""))
        return 0
    chosen.log.mkdir(parents=True, exist_ok=True)
    outcomes = list(walk(pages, clone, chosen.log, known))
    (chosen.table.write_text if chosen.table else sys.stdout.write)(table(outcomes))
    return int(any(re.fullmatch(r"\d+|not ended.*", each.how) and each.how != "0" for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
