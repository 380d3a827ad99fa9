#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small PyTorch training loop for scripts/demo. Its GPU mostly waits: two workers prepare the batches,
and preparing a batch takes longer than training on it. Runs for some seconds."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 60
BATCH = 64
DECODE_SECONDS = 0.002  # a sample; 64 of them by two workers take 64 ms a batch


class SlowImages(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        return decode(index), index % 10


def decode(index):
    """Keeps a core busy, as decoding an image does."""
    end = time.perf_counter() + DECODE_SECONDS
    while time.perf_counter() < end:
        pass
    return torch.full((3, 64, 64), float(index % 7))


def main():
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, stride=2), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    total = torch.zeros((), device="cuda")
    for step, (images, labels) in enumerate(DataLoader(SlowImages(), batch_size=BATCH, num_workers=2)):
        loss = loss_of(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
        if step % 20 == 19:
            print(f"step {step + 1}: mean loss {total.item() / (step + 1):.3f}", flush=True)


if __name__ == "__main__":
    main()
