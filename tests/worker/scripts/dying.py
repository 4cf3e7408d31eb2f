"""A user's script whose last rank fails in its third step."""

from __future__ import annotations

import torch
import torch.distributed as dist

import scalecurve_worker as scalecurve

dist.init_process_group("gloo")
bench = scalecurve.attach()
steps = 0
while bench.step(4):
    dist.all_reduce(torch.ones(1))
    steps += 1
    if steps == 3 and dist.get_rank() == dist.get_world_size() - 1:
        raise RuntimeError("bit flipped")
bench.finish()
