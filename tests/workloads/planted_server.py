# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: an inference server with too few requests. A client process sends one every 25 ms over a local
socket; answering takes the GPU a few milliseconds. The server waits in recv.

Usage: planted_server.py [SECONDS]
"""

import socket
import struct
import subprocess
import sys
import time

from workload import lines_marked, report, seconds_from_command_line

INTERVAL_S, REQUEST = 0.025, struct.Struct("<I256f")
ANSWER = struct.Struct("<If")


def client(port, seconds):
    """Sends requests at a fixed pace, whatever the answers take, until the time is over."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        answers, number, begin = connection.makefile("rb"), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            connection.sendall(REQUEST.pack(number, *([0.5] * 256)))
            got, _ = ANSWER.unpack(answers.read(ANSWER.size))
            assert got == number
            number += 1
            time.sleep(max(0.0, begin + number * INTERVAL_S - time.perf_counter()))


def next_request(connection):
    return connection.recv(REQUEST.size, socket.MSG_WAITALL)  # planted


def answer(layers, request):
    import torch

    number, *features = REQUEST.unpack(request)
    x = torch.tensor(features, device="cuda").repeat(2048, 16)
    for layer in layers:
        x = torch.relu(layer(x))
    return ANSWER.pack(number, x.mean().item())


def serve(seconds):
    import torch

    layers = [torch.nn.Linear(4096, 4096).cuda() for _ in range(2)]
    listener = socket.create_server(("127.0.0.1", 0))
    with torch.no_grad():
        for _ in range(3):
            answer(layers, REQUEST.pack(0, *([0.5] * 256)))
        arguments = [sys.executable, __file__, str(seconds), str(listener.getsockname()[1])]
        with subprocess.Popen(arguments) as process:
            connection, _ = listener.accept()
            answered, waiting, begin = 0, 0.0, time.perf_counter()
            while True:
                before = time.perf_counter()
                request = next_request(connection)
                if len(request) < REQUEST.size:
                    break
                waiting += time.perf_counter() - before
                connection.sendall(answer(layers, request))
                answered += 1
            total = time.perf_counter() - begin
        listener.close()
        assert process.returncode == 0
    report(["request_wait"], lines_marked(__file__), waiting / total, answered, total)


def main():
    if len(sys.argv) > 2:
        client(int(sys.argv[2]), float(sys.argv[1]))
    else:
        serve(seconds_from_command_line())


if __name__ == "__main__":
    main()
