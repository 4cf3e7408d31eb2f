"""Pictures of a terminal: a command is run, and what it prints becomes an SVG."""

from __future__ import annotations

import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

from rich.console import Console
from rich.text import Text

from tools.claims.claims_file import TerminalPicture

SCALECURVE = Path(sys.executable).with_name("scalecurve")


def svg(picture: TerminalPicture) -> str:
    """What the command shows in a terminal as wide as the picture says.

    Raises:
        subprocess.CalledProcessError: if the command fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        shown = _terminal_output([str(SCALECURVE), *picture.command[1:]], folder, picture.columns)
    console = Console(record=True, width=picture.columns, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {' '.join(picture.command)}", style="bold"))
    console.print(Text.from_ansi(shown.replace("\r\n", "\n").rstrip("\n")))
    return console.export_svg(title=" ".join(picture.command[:2]), unique_id="terminal")


def _terminal_output(command: Sequence[str], folder: str, columns: int) -> str:
    """What a command writes to a terminal: tables fit its width."""
    ours, its = pty.openpty()
    ioctl(its, TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with subprocess.Popen(command, cwd=folder, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        output = b""
        with suppress(OSError):  # EIO: the last process has closed its end
            while data := os.read(ours, 65_536):
                output += data
        os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return output.decode()
