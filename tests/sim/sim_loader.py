# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A data loader with worker processes, built as PyTorch's is: an index queue for each worker, one queue of
results, batches handed out in order, two batches a worker in flight.
"""

import multiprocessing
import os

_AHEAD = 2  # batches a worker


def work(load, indices, results, core):
    """The worker's loop; None ends it."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    while True:
        index = indices.get()
        if index is None:
            return
        results.put((index, load(index)))


class Loader:
    """load(index) makes a batch, in a worker; core: all workers are bound to it."""

    def __init__(self, load, workers, method="fork", core=None):
        context = multiprocessing.get_context(method)
        self.results = context.Queue()
        self.indices = [context.Queue() for _ in range(workers)]
        self.workers = [
            context.Process(target=work, args=(load, queue, self.results, core), daemon=True)
            for queue in self.indices
        ]
        for process in self.workers:
            process.start()
        self.sent = self.returned = 0
        self.early = {}
        for _ in range(workers * _AHEAD):
            self._send()

    def _send(self):
        self.indices[self.sent % len(self.indices)].put(self.sent)
        self.sent += 1

    def next(self):
        """The next batch in order; blocks until it is there."""
        while self.returned not in self.early:
            index, batch = self.results.get()
            self.early[index] = batch
        batch = self.early.pop(self.returned)
        self.returned += 1
        self._send()
        return batch

    def close(self):
        """What is under way is finished, not cut off."""
        for queue in self.indices:
            queue.put(None)
        while any(process.is_alive() for process in self.workers):
            while not self.results.empty():
                self.results.get()
            self.workers[0].join(0.01)
        for process in self.workers:
            process.join()
