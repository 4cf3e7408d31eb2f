"""Prints what carried the collectives of each trial of some bundles, what was visible, and the verdict."""

import sys
from pathlib import Path

from scalecurve.bundle.open import open_bundle


def main(folders: list[str]) -> None:
    for folder in folders:
        for trial in open_bundle(Path(folder)).trials:
            if (record := trial.record) is None:
                continue
            name = f"{trial.spec.experiment}/{trial.spec.name}"
            print(f"{name}: {record.phase.value} {record.reason or ''} {record.message}")
            for place, seen in zip(record.topology, record.transports, strict=False):
                print(f"  rank {place.rank}: {seen.wire() if seen else 'nothing seen'}")


if __name__ == "__main__":
    main(sys.argv[1:])
