"""Compute every claim and picture again, and compare them with the pages.

python -m tools.claims                 # name what differs; exit 1
python -m tools.claims --write         # write the pages' claims and the pictures
python -m tools.claims --no-pictures   # the claims only, without a browser
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tools.claims import pages, pictures
from tools.claims.claims_file import ClaimsError, read


def main(arguments: Sequence[str]) -> int:
    """Check, or write; return 1 if something is out of order."""
    parser = argparse.ArgumentParser(
        "python -m tools.claims", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write what differs")
    parser.add_argument("--no-pictures", action="store_true", help="leave the pictures as they are")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        file = read()
        found = pages.check(file, write=chosen.write)
        if not chosen.no_pictures:
            found += pictures.check(file, write=chosen.write)
    except ClaimsError as error:
        print(error)
        return 1
    for line in found:
        print(line)
    print(f"{time.monotonic() - began:.0f} s")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
