"""A trainer of the shape of nanoGPT: GPT blocks, random crops of a file of tokens, accumulation by DDP's flag.

What is measured are the lines that name ``bench``, and nothing else is.
"""

import os
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

import scalecurve_worker as scalecurve

batch_size, block_size, gradient_accumulation_steps = 4, 64, 2
vocab_size, n_layer, n_head, n_embd, dropout = 256, 2, 4, 64, 0.1
learning_rate, grad_clip, eval_interval, max_iters = 1e-3, 1.0, 1000, 600_000


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        size, length, _ = x.shape
        heads = [
            part.view(size, length, n_head, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(n_embd, 2)
        ]
        y = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(size, length, n_embd))
        out: Tensor = x + self.drop(self.mlp(self.ln_2(x)))
        return out


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.blocks = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.reshape(-1))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
assert gradient_accumulation_steps % world == 0
gradient_accumulation_steps //= world
torch.manual_seed(1337 + rank)
data = torch.from_file(os.environ["TOKENS"], dtype=torch.uint8, size=Path(os.environ["TOKENS"]).stat().st_size)
ctx = nullcontext()


def get_batch() -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(data) - block_size, (batch_size,))
    crops = torch.stack([data[at : at + block_size + 1].long() for at in starts.tolist()])
    return crops[:, :-1], crops[:, 1:]


model: nn.Module = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
model = DDP(model)
scaler = torch.amp.GradScaler("cpu", enabled=False)
bench = scalecurve.attach(model, unit="tokens")
X, Y = get_batch()
iter_num = 0
while bench.step(samples=batch_size * gradient_accumulation_steps):
    if iter_num % eval_interval == eval_interval - 1 and rank == 0:
        print(f"iter {iter_num}")
    for micro_step in range(gradient_accumulation_steps):
        model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1  # type: ignore[assignment]
        with ctx:
            _, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        bench.tokens(X.numel())
        with bench.loading:
            X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    bench.loss(loss * gradient_accumulation_steps)
    iter_num += 1
    if iter_num > max_iters:
        break
bench.finish()
dist.destroy_process_group()
