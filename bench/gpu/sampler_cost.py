#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the host sampler costs a PyTorch process: CPU time of the library's own threads, as the kernel counts it,
over ten seconds of a training loop, alone and with 100 more Python threads (10 of which wake up 50 times a second).

    python3 bench/gpu/sampler_cost.py [--seconds 10] [--hz 100]"""
import argparse
import csv
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time

DIST = pathlib.Path(os.environ.get("GPUPROBE_DIST", pathlib.Path(__file__).resolve().parents[2] / "build" / "dist"))

PROGRAM = """
import sys, threading, time
import torch
def wake():
    while True:
        time.sleep(0.02)
for i in range(int(sys.argv[1])):
    threading.Thread(target=wake if i < 10 else threading.Event().wait, daemon=True).start()
layers = [torch.randn(256, 256, device="cuda") for _ in range(20)]
def forward(x):
    for layer in layers:
        x = torch.relu(x @ layer)
    return x
x = torch.randn(64, 256, device="cuda")
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for _ in range(20):
        y = forward(x)
    y.sum().item()
"""


def own_threads(pid):
    """name -> CPU ns of each thread of ours."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("gpuprobe"):
            found[name] = int((task / "schedstat").read_text().split()[0])
    return found


def looks_a_second(folder, lasted_s):
    """As the trace tells it, over the whole run: where looks are dear the sampler makes fewer."""
    text = subprocess.run([DIST / "bin" / "probe-report", "info", "--format", "csv", folder], check=True,
                          capture_output=True, text=True).stdout
    return sum(int(row[-1]) for row in csv.reader(io.StringIO(text)) if "sampler_looks" in row) / lasted_s


def measure(threads, seconds, hz):
    """Share of a core for each thread of ours, and looks a second."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUPROBE_")}
        environment.update(LD_PRELOAD=str(DIST / "lib" / "libgpuprobe.so"), GPUPROBE_OUT=folder + "/run",
                           GPUPROBE_SAMPLE_HZ=str(hz))
        lead_in = 7.0  # imports, CUDA's start, and the sampler's credit for them
        child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(threads), str(lead_in + seconds + 3)],
                                 env=environment)
        while not own_threads(child.pid):
            time.sleep(0.05)
            if child.poll() is not None:
                sys.exit(f"the program ended early, exit code {child.returncode}")
        loaded = time.monotonic()
        time.sleep(lead_in)
        first, begin = own_threads(child.pid), time.monotonic()
        time.sleep(seconds)
        last, elapsed = own_threads(child.pid), time.monotonic() - begin
        child.wait()
        looks = looks_a_second(folder + "/run", time.monotonic() - loaded)
    return {name: (last[name] - first[name]) / 1e9 / elapsed for name in first if name in last}, looks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--hz", type=int, default=100)
    arguments = parser.parse_args()
    print("| more threads | Hz | looks a second | own thread | % of a core |\n|---|---|---|---|---|")
    for threads in (0, 100):
        shares, looks = measure(threads, arguments.seconds, arguments.hz)
        for name, share in sorted(shares.items()):
            print(f"| {threads} | {arguments.hz} | {looks:.0f} | {name} | {100 * share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
