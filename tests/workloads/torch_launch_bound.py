# SPDX-License-Identifier: Apache-2.0
"""A small GPT training step, bound by kernel launches (unfused AdamW). Prints ms per step.

Usage: torch_launch_bound.py [STEPS] [--count]. With --count, torch.profiler counts the kernels of one step
instead: the independent figure to hold a trace against."""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from yardstick import yardstick_us

STEPS_A_BLOCK = 4
# For bench/gpu/stepper.py: what the first step imports, and what waits for the GPU.
PRELOAD = ["torch._dynamo", "torch.profiler"]


def drain():
    torch.cuda.synchronize()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=12, width=384, heads=6, vocabulary=8192, length=128):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def count_kernels(step):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        step()
        torch.cuda.synchronize()
    on_gpu = [e.name for e in prof.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    moves = [n for n in on_gpu if n.startswith(("Memcpy", "Memset"))]
    print(json.dumps({"kernels_per_step": len(on_gpu) - len(moves), "moves_per_step": len(moves)}))


def make_step():
    """One training step as a function, warmed up."""
    torch.manual_seed(0)
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    ids = torch.randint(0, 8192, (4, 128), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    return step


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    step = make_step()
    if "--count" in sys.argv:
        count_kernels(step)
        return
    blocks, yardsticks = [], []
    for _ in range(max(1, steps // STEPS_A_BLOCK)):
        before = yardstick_us()
        begin = time.perf_counter()
        for _ in range(min(steps, STEPS_A_BLOCK)):
            loss = step()
        torch.cuda.synchronize()
        blocks.append((time.perf_counter() - begin) * 1e3 / min(steps, STEPS_A_BLOCK))
        yardsticks.append((before + yardstick_us()) / 2)
    print(f"ms_per_step={sum(blocks) / len(blocks):.2f} loss={loss.item():.4f}")
    print("ms_per_block", *(f"{b:.3f}" for b in blocks))
    print("yardstick_us", *(f"{y:.1f}" for y in yardsticks))


if __name__ == "__main__":
    main()
