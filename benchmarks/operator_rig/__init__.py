"""What measures an operator from outside: its process, its requests in the audit log, a player, an observer, bars."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLUSTER = ROOT / "tests" / "cluster"
sys.path.insert(0, str(CLUSTER))
