# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: the main thread tokenises text in pure Python before every step of a small transformer.

Tokenising takes tens of milliseconds, the step a few; the GPU has nothing to do meanwhile.

Usage: planted_tokenize.py [SECONDS]
"""

import random
import time

import torch
from torch import nn
from workload import StepClock, lines_marked, report, seconds_from_command_line

VOCABULARY, LENGTH, BATCH = 4096, 512, 16


def make_text(characters=400_000):
    letters = random.Random(0)
    return "".join(letters.choices("etaoin shrdlu,.cmfwyp", k=characters))


def tokenize(text):
    return [(31 * ord(a) + 17 * ord(b)) % VOCABULARY for a, b in zip(text, text[1:])]  # planted


class Classifier(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)).mean(dim=1))


def train_step(model, optimizer, tokens):
    ids = torch.tensor(tokens[: BATCH * LENGTH]).view(BATCH, LENGTH).cuda()
    loss = model(ids).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def main():
    seconds = seconds_from_command_line()
    text = make_text()
    tokens = tokenize(text)
    model = Classifier().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        train_step(model, optimizer, tokens)
    torch.cuda.synchronize()

    clock, steps, begin = StepClock(torch.cuda.Event), 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        tokens = tokenize(text)
        clock.begin()
        train_step(model, optimizer, tokens)
        clock.end()
        steps += 1
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    share = 1 - clock.seconds() / total
    report(["host_python"], lines_marked(__file__), share, steps, total)


if __name__ == "__main__":
    main()
