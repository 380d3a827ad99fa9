# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: four loader workers decode JPEGs too slowly, and ResNet-18 waits for every batch.

Each image takes a worker some ten milliseconds, a batch of 32 about eighty with four workers, and the
training step a tenth of that. The main thread sits in next(batches), the workers in decode.

Usage: planted_jpeg_workers.py [SECONDS]
"""

import io
import time

import numpy
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18
from workload import StepClock, lines_marked, report, seconds_from_command_line

BATCH, WORKERS, IMAGES = 32, 4, 4


def make_jpegs(count, width=1600, height=1200):
    """Photographs' stand-ins: smooth colour with grain, so that they take as long to decode."""
    random = numpy.random.default_rng(0)
    across = numpy.linspace(0, 200, width, dtype=numpy.float32)
    down = numpy.linspace(0, 55, height, dtype=numpy.float32)
    smooth = (across[None, :, None] + down[:, None, None]) * numpy.float32([1.0, 0.8, 0.6])
    jpegs = []
    for _ in range(count):
        grain = random.integers(0, 40, (height // 4, width // 4, 1), dtype=numpy.uint8)
        grain = grain.repeat(4, axis=0).repeat(4, axis=1)
        picture = Image.fromarray(numpy.clip(smooth + grain, 0, 255).astype(numpy.uint8))
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=92)
        jpegs.append(file.getvalue())
    return jpegs


class Photographs(Dataset):
    def __init__(self, jpegs, count):
        self.jpegs, self.count = jpegs, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return decode(self.jpegs[index % len(self.jpegs)]), index % 10


def decode(jpeg):
    image = Image.open(io.BytesIO(jpeg)).convert("RGB")  # planted-worker
    small = image.resize((224, 224), Image.Resampling.NEAREST)
    return torch.from_numpy(numpy.array(small)).permute(2, 0, 1).float().div_(255)


def train_step(model, optimizer, images, labels):
    loss = F.cross_entropy(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def next_batch(batches):
    return next(batches)  # planted


def main():
    seconds = seconds_from_command_line()
    loader = DataLoader(
        Photographs(make_jpegs(IMAGES), 1 << 20),
        batch_size=BATCH,
        num_workers=WORKERS,
        pin_memory=True,
    )
    batches = iter(loader)
    model = resnet18(num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        train_step(model, optimizer, *next_batch(batches))
    torch.cuda.synchronize()

    clock, steps, begin = StepClock(torch.cuda.Event), 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        images, labels = next_batch(batches)
        clock.begin()
        train_step(model, optimizer, images, labels)
        clock.end()
        steps += 1
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    report(
        ["input_wait"],
        lines_marked(__file__),
        1 - clock.seconds() / total,
        steps,
        total,
        behind_line=lines_marked(__file__, "planted-worker")[0],
    )


if __name__ == "__main__":
    main()
