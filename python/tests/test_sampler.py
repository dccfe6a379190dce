"""Data that follows the workers."""

import collections
import os
import signal
import tempfile
import unittest

import torch

import kith
from support import DEVICE, Crash, finish_workers, load_result, main, make_net, message_of, run_alone, run_workers, start_workers

SAMPLES, BATCH, KILLED = 3007, 3, 1  # an epoch is longer than it takes to miss somebody


def wrap(**options):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    return opt, kith.DecentralizedDataParallel(net, opt, **options)


def step(opt, model):
    opt.zero_grad(set_to_none=True)
    model(torch.ones(1, 3, dtype=torch.float64, device=DEVICE)).sum().backward()
    opt.step()


def two_epochs(world, topology):
    opt, model = wrap(topology=topology)
    sampler = kith.Sampler(range(SAMPLES), model, BATCH)
    epochs = []
    for _ in range(2):
        length = len(sampler)
        epochs.append([])
        for batch in sampler:
            epochs[-1].append(batch)
            step(opt, model)
        assert length == len(epochs[-1])
    return epochs


def through_a_loader(world):
    opt, model = wrap()
    data = torch.arange(SAMPLES)
    loader = torch.utils.data.DataLoader(data, batch_sampler=kith.Sampler(data, model, BATCH))
    seen = []
    for x in loader:
        seen += x.tolist()
        step(opt, model)
    return seen


def loses_one(world, folder, algorithm, ahead, dies_after):
    """Worker KILLED notes what it uses and dies; a loader that draws ahead is played by hand."""
    opt, model = wrap(algorithm=algorithm, topology="ring")
    batches = iter(kith.Sampler(SAMPLES, model, BATCH))
    queue, used = collections.deque(), []
    for _ in range(ahead):
        queue.append(next(batches))
    while True:
        batch = next(batches, None)
        if batch is not None:
            queue.append(batch)
        if not queue:
            break
        used.append(queue.popleft())
        if world.rank == KILLED:
            torch.save(used, os.path.join(folder, "used"))
            if model.steps == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
        step(opt, model)
    assert (model.rank, model.size) == (model.members.index(world.rank), 3), model.members
    # The next epoch is whole again, among those who are left.
    whole = sum(len(batch) for batch in kith.Sampler(SAMPLES, model, BATCH))
    return used, model._engine.heard(KILLED), model._changes[0].began, whole


def bad_arguments(world):
    _, model = wrap()
    return [
        message_of(kith.InputError, lambda: kith.Sampler(SAMPLES, model, 0)),
        message_of(kith.InputError, lambda: kith.Sampler(5, model, 6)),
        message_of(kith.InputError, lambda: kith.Sampler(5, model.module, 1)),
    ]


def count(epoch):
    """By sample, over all workers."""
    return collections.Counter(sample for batches in epoch for batch in batches for sample in batch)


class Dealt(unittest.TestCase):
    def test_no_sample_twice_and_the_order_is_new(self):
        results = run_workers(4, two_epochs, "exp")
        for epoch in range(2):
            seen = count(result[epoch] for result in results)
            self.assertEqual(set(seen.values()), {1})
            self.assertEqual(len(seen), SAMPLES // (4 * BATCH) * 4 * BATCH)
            self.assertEqual({len(result[epoch]) for result in results}, {SAMPLES // (4 * BATCH)})
        self.assertNotEqual(results[0][0], results[0][1])

    def test_a_data_loader_takes_it(self):
        seen = collections.Counter(sum(run_workers(2, through_a_loader), []))
        self.assertEqual(set(seen.values()), {1})
        self.assertEqual(len(seen), SAMPLES // (2 * BATCH) * 2 * BATCH)

    def test_bad_arguments_are_named(self):
        zero, little, module = run_alone(bad_arguments)
        self.assertIn("batch_size: 0", zero)
        self.assertIn("5 samples do not fill one batch of 6", little)
        self.assertIn("DecentralizedDataParallel", module)


class Lost(unittest.TestCase):
    def lose(self, algorithm, ahead, dies_after):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            codes = finish_workers(start_workers(4, folder, loses_one, (folder, algorithm, ahead, dies_after)))
            for worker in range(4):
                failure = os.path.join(folder, f"failure{worker}")
                if os.path.exists(failure):
                    with open(failure) as file:
                        raise Crash(file.read())
            self.assertEqual(codes, [0, -signal.SIGKILL, 0, 0])
            results = [load_result(folder, worker) for worker in (0, 2, 3)]
            dead = torch.load(os.path.join(folder, "used"))
        heard = max(result[1] for result in results)
        if algorithm == "allreduce":
            heard = results[0][2]
        self.assertLessEqual(heard, dies_after + 1)
        seen = count([result[0] for result in results] + [dead[:heard]])
        self.assertEqual(set(seen.values()), {1}, "a sample is in one model")
        self.assertGreater(len(seen), SAMPLES - 3 * BATCH, "and none is forgotten")
        self.assertEqual({len(result[0]) for result in results}, {len(results[0][0])})
        self.assertEqual({result[3] for result in results}, {SAMPLES // (3 * BATCH) * BATCH})

    def test_what_the_dead_had_not_told_is_dealt_again(self):
        self.lose("awc", 0, 5)

    def test_a_loader_that_draws_ahead(self):
        self.lose("awc", 4, 5)

    def test_algorithms_that_publish_within_the_step(self):
        self.lose("atc", 0, 4)

    def test_allreduce(self):
        self.lose("allreduce", 0, 4)


if __name__ == "__main__":
    main()
