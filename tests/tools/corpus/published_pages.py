"""Pages with tables of figures, by hand, in the form of those that are published."""

from collections.abc import Mapping
from pathlib import Path

ROW = {
    "Model": "7b", "SeqLen (T)": "2048", "# GPUs": "16", "GPU": "h100_80gb", "MFU": "45.71", "MicroBatchSize": "6",
    "GlobalBatchSize": "96", "Throughput (S/s)": "81", "Throughput (T/s)": "167,600", "Throughput (T/s/GPU)": "10475",
    "Precision": "amp_bf16", "Sharding Strategy": "FULL_SHARD", "Activation Checkpointing": "True",
    "NumParams": "6658859008",
}  # fmt: skip

TITAN = """
### Models

Llama 3.1 8B

### Hardware

- Each host has 8 NVIDIA H100 GPUs fully connected with NVLink.
- Each H100 GPU is equipped with {memory}GB HBM3.

### Results

**Table 1** FSDP. Llama 3.1 8B model. 128 GPUs. Local batch size 2, global batch size 256.

| Techniques | TPS/GPU | Memory(GiB) |
| ----- | ----: | ----: |
| FSDP | 5,605 | 67.0 |
| FSDP + Float8 | 8,380 | 61.8 |

**Table 2** FSDP + CP. Llama 3.1 8B model. 8 GPUs. Local batch size 1.

| Parallelism | Sequence Length | TPS/GPU |
| ----- | ----: | ----: |
| FSDP 1, CP 8 | 262144 | 548 |

#### Llama3 70b on 256 H100s with TP=8, local batch size 16

| Quantization | Vanilla TP tokens/sec | Speedup |
| :---- | :---- | :---- |
| None (bfloat16) | 597.3 | 1.09 |
"""


def foundry(*rows: Mapping[str, str]) -> str:
    """The page with a row for each mapping: what it names differs from ``ROW``."""
    table = [ROW | row for row in rows]
    lines = [list(ROW), ["---"] * len(ROW), *(list(row.values()) for row in table)]
    return "# Benchmarks\n\n## H100 80GB BF16\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def written(path: Path, text: str) -> Path:
    """The page, with the folders that it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
