"""What measures an operator from outside: its process, its requests in the audit log, a player, an observer, bars."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
