"""DDP's habits: a script of DDP's with three lines changed trains the same."""

import os
import random
import socket
import subprocess
import sys
import unittest

from support import DEVICE, main

HERE = os.path.dirname(os.path.abspath(__file__))
CHANGES = (
    ("import torch.distributed as dist\n", "import kith\n"),
    (
        'dist.init_process_group("gloo")\nrank, size = dist.get_rank(), dist.get_world_size()\n',
        "world = kith.init(device=device); rank, size = world.rank, world.size\n",
    ),
    (
        "torch.nn.parallel.DistributedDataParallel(net, broadcast_buffers=False)",
        'kith.DecentralizedDataParallel(net, opt, algorithm="allreduce")',
    ),
)


def free_ports():
    """A port whose successor is free as well: kith's store is at MASTER_PORT + 1. Below those that the kernel gives to connections, so
    that other tests do not get them in between."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def losses_of(text, workers=2):
    """Runs the script as torchrun does; {(rank, epoch, step): loss}."""
    port = str(free_ports())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", text, str(DEVICE)],
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(workers),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(workers),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(workers)
    ]
    losses = {}
    try:
        for process in processes:
            told, _ = process.communicate(timeout=100)
            assert process.returncode == 0, process.returncode
            for line in told.splitlines():
                word, *key, loss = line.split()
                assert word == "loss"
                losses[tuple(map(int, key))] = float(loss)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return losses


class Script(unittest.TestCase):
    def test_with_three_lines_changed_has_the_same_losses(self):
        with open(os.path.join(HERE, "ddp_script.py")) as file:
            theirs = file.read()
        ours = theirs
        for before, after in CHANGES:
            self.assertEqual(ours.count(before), 1)
            ours = ours.replace(before, after)
        self.assertNotIn("dist.", ours)
        expected, found = losses_of(theirs), losses_of(ours)
        self.assertEqual(len(expected), 2 * 5 * 6)
        self.assertEqual(found.keys(), expected.keys())
        for key in expected:
            self.assertLess(abs(found[key] - expected[key]), 1e-5, key)
        self.assertNotEqual(expected[0, 0, 0], expected[1, 0, 0], "each worker has data of its own")


if __name__ == "__main__":
    main()
