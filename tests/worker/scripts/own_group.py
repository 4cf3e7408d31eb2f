"""A user's script over several pods: its own group, the SDK, and output without newlines."""

from __future__ import annotations

import os

import torch.distributed as dist

import scalecurve_worker as scalecurve

dist.init_process_group("gloo")
bench = scalecurve.attach()
while bench.step(4):
    print("." * 10, end="", flush=True)
bench.finish()
print(f"\nrank {dist.get_rank()} says {os.environ['OWN']}", flush=True)
dist.destroy_process_group()
