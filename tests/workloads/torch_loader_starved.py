# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 training that waits for its DataLoader: two workers make each batch too slowly (pure Python
work of a known length). Prints ms per step and the share of time spent in next(loader)."""
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


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


def main():
    from torchvision.models import resnet18  # here: the workers do not need it
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    model = resnet18(num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(SlowImages(32 * steps, 0.004), batch_size=32, num_workers=2, pin_memory=True)
    waiting, begin, done = 0.0, time.perf_counter(), 0
    batches = iter(loader)
    for step in range(steps):
        before = time.perf_counter()
        images, labels = next(batches)
        waiting += time.perf_counter() - before
        loss = F.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        done += 1
        if step % 4 == 3:
            loss.item()
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    print(f"ms_per_step={total * 1e3 / done:.1f} waiting_share={waiting / total:.2f}")


if __name__ == "__main__":
    main()
