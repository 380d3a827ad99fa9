# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: nothing. Large layers, batches that are there in time, a loss that is read every twentieth step:
the GPU is the bottleneck.

Usage: planted_gpu_bound.py [SECONDS]
"""

import time

import torch
from torch import nn
from workload import report, seconds_from_command_line

WIDTH, ROWS = 4096, 8192


def train_step(model, optimizer, x):
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).float().square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss


def main():
    seconds = seconds_from_command_line()
    layers = []
    for _ in range(6):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    x = torch.randn(ROWS, WIDTH, device="cuda")
    for _ in range(3):
        train_step(model, optimizer, x)
    torch.cuda.synchronize()

    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        loss = train_step(model, optimizer, x)
        steps += 1
        if steps % 20 == 0:
            assert loss.item() >= 0
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    report(["gpu_bound"], [], 0.0, steps, total)


if __name__ == "__main__":
    main()
