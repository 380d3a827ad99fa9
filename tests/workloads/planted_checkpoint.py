# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: every so many steps a checkpoint of some 400 MB is saved and forced to disk, while the GPU waits.

Between two checkpoints the GPU is busy: the loop waits only where it reads the loss, every tenth step.

Usage: planted_checkpoint.py [SECONDS]
"""

import os
import tempfile
import time

import torch
from torch import nn
from workload import lines_marked, report, seconds_from_command_line

WIDTH, LAYERS, STEPS_BETWEEN = 4096, 6, 30


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def train_step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=-1e-6)
            parameter.grad = None
    return loss


class Checkpoints:
    """Saves to one file, atomically; keeps the seconds spent by line."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "model.pt")
        self.saving = self.syncing = 0.0

    def save(self, model, step):
        begin = time.perf_counter()
        with open(self.path + ".part", "wb") as file:
            torch.save({"step": step, "model": model.state_dict()}, file)  # planted
            file.flush()
            saved = time.perf_counter()
            os.fsync(file.fileno())  # planted-disk
        os.replace(self.path + ".part", self.path)
        self.saving += saved - begin
        self.syncing += time.perf_counter() - saved


def main():
    seconds = seconds_from_command_line()
    model = Model().cuda()
    x = torch.randn(2048, WIDTH, device="cuda")
    for _ in range(3):
        train_step(model, x)
    torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder)
        steps, saves, begin = 0, 0, time.perf_counter()
        while time.perf_counter() - begin < seconds or saves < 2:
            loss = train_step(model, x)
            steps += 1
            if steps % 10 == 0:
                assert loss.item() >= 0
            if steps % STEPS_BETWEEN == 0:
                checkpoints.save(model, steps)
                saves += 1
        torch.cuda.synchronize()
        total = time.perf_counter() - begin
    lines = lines_marked(__file__) + lines_marked(__file__, "planted-disk")
    if checkpoints.syncing > checkpoints.saving:
        lines.reverse()
    report(
        ["periodic_stall"],
        lines,
        (checkpoints.saving + checkpoints.syncing) / total,
        steps,
        total,
        saves=saves,
        saving_share=round(checkpoints.saving / total, 4),
        disk_share=round(checkpoints.syncing / total, 4),
    )


if __name__ == "__main__":
    main()
