#!/usr/bin/env python3
"""Writes run folders as kith train does, of workers that never were, and makes them grow.

    tests/observe/synthetic.py FOLDER --workers 64 --steps 200
"""
import argparse
import json
import math
import os
import random

CONFIG = '[world]\nworkers = %d\n[model]\n# a comment\nname = "gpt"\n[algorithm]\nname = "awc"\nmix_every = 1\n[topology]\nname = "exp"\n[optimizer]\nname = "adamw"\n[wire]\ntype = "full"\n'


class Run:
    """Step t of worker i reads worker i + 2^(t mod log n), and waits until that one has done step t - 1; the last worker takes `slow` times as long as the
    others."""

    def __init__(self, folder, workers=4, slow=3, begin=1.7e9, seed=1):
        self.folder, self.workers, self.slow, self.time = folder, workers, slow, begin
        self.random = random.Random(seed)
        self.alive = set(range(workers))
        self.at = {i: begin for i in range(workers)}  # when it did its last step
        self.done = 0
        self.links = {i: {} for i in range(workers)}
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.toml"), "w", encoding="ascii") as file:
            file.write(CONFIG % workers)
        for i in range(workers):
            os.makedirs(self.path(i, ""), exist_ok=True)
            self.start(i)

    def path(self, worker, name="metrics.jsonl"):
        return os.path.join(self.folder, f"worker-{worker}", name)

    def write(self, of, **line):
        with open(self.path(of), "a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")

    def start(self, i):
        self.write(i, kind="start", step=self.done, time=self.time, worker=i, workers=self.workers, machine=i // 8, steps=1000, seconds=0, unit="token",
                   units_per_step=1024, backend="shm", environment={"host": f"node{i // 8}", "cpu": "some cpu", "cores": "8"})
        self.write(i, kind="members", step=self.done, time=self.time, view=0, members=sorted(self.alive))

    def peer_of(self, i, step):
        return (i + 2 ** (step % max(1, int(math.log2(self.workers))))) % self.workers

    def steps(self, count):
        for _ in range(count):
            self.done += 1
            before = dict(self.at)
            for i in sorted(self.alive):
                own = 0.02 * (self.slow if i == self.workers - 1 else 1) * self.random.uniform(0.9, 1.1)
                peer = self.peer_of(i, self.done)
                lost = [peer] if peer not in self.alive else []
                waited = 0 if lost else max(0, before[peer] - before[i] - own)
                seconds = own + waited
                self.at[i] = self.time = before[i] + seconds
                link = self.links[i].setdefault(peer, {"waited": 0, "longest": 0, "held_up": 0, "arrivals": 0, "read": 0, "offered": 0, "late": 0, "lost": 0, "across": False})
                link["waited"] += waited
                link["read"] += 0 if lost else 4096
                link["offered"] += 4096
                line = {"loss": 2 + 3 * math.exp(-self.done / 100) + 0.01 * i, "lr": 1e-3, "seconds": seconds, "waited_seconds": waited, "waiting_share": waited / seconds, "held_up_seconds": 0,
                        "units_per_second": 1024 / seconds, "bytes_read": 0 if lost else 4096, "bytes_published": 4096, "consensus": 0.1 / math.sqrt(self.done), "peers": {str(peer): {"waited": waited, "read": 0 if lost else 4096}}}
                if lost:
                    line["lost"] = lost
                self.write(i, kind="step", step=self.done, time=self.time, view=0, epoch=0, **line)
        for i in sorted(self.alive):
            self.write(i, kind="links", step=self.done, time=self.time, peers={str(p): l for p, l in self.links[i].items()})
        self.write(min(self.alive), kind="eval", step=self.done, time=self.time, loss=2.5, accuracy=0.4, consensus_distance=0.05, seconds=self.done * 0.06)

    def kill(self, worker):
        self.alive.remove(worker)

    def resume(self, step):
        """Everybody goes on after `step`: files are written anew, without what follows."""
        self.alive = set(range(self.workers))
        self.done = step
        self.time = max(self.at.values()) + 30
        self.at = {i: self.time for i in range(self.workers)}
        for i in range(self.workers):
            with open(self.path(i), encoding="ascii") as file:
                kept = [line for line in file if json.loads(line)["step"] <= step]
            with open(self.path(i, "new"), "w", encoding="ascii") as file:
                file.writelines(kept)
            os.rename(self.path(i, "new"), self.path(i))
            self.links[i] = {}
            self.start(i)

    def end(self):
        for i in sorted(self.alive):
            self.write(i, kind="end", step=self.done, time=self.time, ending="finished")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    run = Run(options.folder, options.workers)
    run.steps(options.steps)


if __name__ == "__main__":
    main()
