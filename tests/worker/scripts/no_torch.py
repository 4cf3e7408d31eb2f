"""The built-in program of an image that has no torch."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

from scalecurve_worker.__main__ import main


class WithoutTorch(MetaPathFinder):
    """Finds nothing, and lets nobody else find torch."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}")


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutTorch())
    sys.exit(main())
