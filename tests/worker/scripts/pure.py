"""A training script without any framework: three lines of SDK."""

import os
import sys
import time

import scalecurve_worker as scalecurve

bench = scalecurve.attach()
assert "torch" not in sys.modules
pause = float(os.environ.get("PAUSE", "0.002"))
for number, _batch in enumerate(bench.steps([[0] * 4, [0] * 4])):
    time.sleep(pause)
    if number == int(os.environ.get("FAIL_AT", "-1")):
        raise MemoryError("cannot hold it")
    bench.loss(1.0 / (1 + number))
record = bench.finish(checksum="same")
print("windows", len(record.windows), "world", record.world)
