# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 training that waits for its DataLoader: two workers make each batch too slowly (pure Python
work of a known length). Prints ms per step and the share of time spent in next(loader)."""
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

# For bench/gpu/stepper.py: what the first step imports, and what waits for the GPU.
PRELOAD = ["torch._dynamo", "torch.profiler", "torchvision.models"]


def drain():
    torch.cuda.synchronize()


class SlowImages(Dataset):
    def __init__(self, count, seconds):
        self.count, self.seconds = count, seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return torch.zeros(3, 64, 64), index % 10


class Training:
    """The loop, step by step; `waiting` is the time spent in next(loader)."""

    def __init__(self, steps):
        from torchvision.models import resnet18  # here: the workers do not need it
        self.model = resnet18(num_classes=10).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        loader = DataLoader(SlowImages(32 * steps, 0.004), batch_size=32, num_workers=2, pin_memory=True)
        self.waiting, self.done = 0.0, 0
        self.begin = time.perf_counter()
        self.batches = iter(loader)

    def step(self):
        before = time.perf_counter()
        images, labels = next(self.batches)
        self.waiting += time.perf_counter() - before
        loss = F.cross_entropy(self.model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.done += 1
        if self.done % 4 == 0:
            loss.item()


def make_step():
    """One training step as a function, warmed up, for as long as anybody asks."""
    training = Training(steps=1_000_000)
    for _ in range(5):
        training.step()
    torch.cuda.synchronize()
    return training.step


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    training = Training(steps)
    for _ in range(steps):
        training.step()
    torch.cuda.synchronize()
    total = time.perf_counter() - training.begin
    print(f"ms_per_step={total * 1e3 / training.done:.1f} waiting_share={training.waiting / total:.2f}")


if __name__ == "__main__":
    main()
