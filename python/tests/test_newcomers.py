"""Workers that come to a running job, and workers that leave it on purpose."""

import collections
import copy
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import torch

import kith
from support import (
    DEVICE,
    LIMIT,
    finish_workers,
    loss_of,
    main,
    make_net,
    message_of,
    results_of,
    run_with_newcomer,
    start_workers,
    vector,
)
from support import _fork as fork

FOUNDERS = 3
SAMPLES, BATCH = 3007, 3
BUILD = os.environ.get("KITH_TEST_BUILD") or os.path.join("..", "..", "build", "release")


def make_normed(dtype=torch.float64):
    """The small network with a buffer of each kind."""
    net = make_net(dtype)
    return torch.nn.Sequential(net[0], torch.nn.BatchNorm1d(4).to(dtype=dtype, device=DEVICE), net[1], net[2])


def step(world, opt, model):
    opt.zero_grad(set_to_none=True)
    loss_of(model, world.rank, model.steps).backward()
    opt.step()
    time.sleep(0.002)  # leaves the processor to whoever comes


OPTIMIZERS = {
    "torch": lambda p: torch.optim.AdamW(p, lr=0.5),
    "kith": lambda p: kith.optim.AdamW(p, lr=0.5),
    "kith sgd": lambda p: kith.optim.SGD(p, lr=0.5, momentum=0.9),
}


def comes_and_leaves(world, ready, algorithm, optimizer, edits):
    """A newcomer joins, then worker 1 leaves, and all that is left ends with the same mean."""
    net = make_normed()
    opt = OPTIMIZERS[optimizer](net.parameters())
    model = kith.DecentralizedDataParallel(net, opt, algorithm=algorithm, topology="exp-directed" if algorithm == "sgp" else "exp")
    model.give_position(lambda: {"after": model.steps})
    if model.joined is None:
        assert not world.newcomer
        opt.param_groups[0]["lr"] = 0.0123
        while model.steps < 10:
            step(world, opt, model)
        if edits:
            with model.edit():
                pass
        if world.rank == 0:
            ready.set()
    found = {
        "joined": model.joined,
        "steps": model.steps,
        "lr": opt.param_groups[0]["lr"],
        "forwards": int(net[1].num_batches_tracked),
        "moments": copy.deepcopy(opt.state_dict()["state"]),
    }
    lost = []
    while model.size < FOUNDERS + 1:
        step(world, opt, model)
        lost += model.report().lost
    came = model._engine.view_began
    found["members"] = model.members  # with all-reduce the others' step may be this one's, and their next view with it
    found["view"] = model.joined.view if model.joined else model.report().view
    while model.steps < came + 5:
        step(world, opt, model)
        lost += model.report().lost
    if world.rank == 1:
        model.finish()
        return found
    while model.size > FOUNDERS:
        step(world, opt, model)
        lost += model.report().lost
    until = model._engine.view_began + 5
    while model.steps < until:
        step(world, opt, model)
    with model.average():
        found["mean"] = vector(net), net[1].running_mean.clone()
    found.update(lost=lost, later=model.members, left=model._engine.left)
    return found


class Joins(unittest.TestCase):
    def run_and_check(self, algorithm, optimizer, edits=False):
        ready = fork.Event()
        *founders, newcomer = run_with_newcomer(FOUNDERS, ready, comes_and_leaves, ready, algorithm, optimizer, edits)
        joined = newcomer["joined"]
        self.assertTrue(all(founder["joined"] is None for founder in founders))
        self.assertGreaterEqual(joined.step, 10)
        self.assertGreaterEqual(newcomer["steps"], joined.step)
        self.assertEqual(joined.position, {"after": joined.step})
        self.assertGreaterEqual(joined.view, 1)  # who comes while somebody edits has to wait for the one after
        self.assertEqual({founder["view"] for founder in founders}, {joined.view})
        self.assertEqual(newcomer["lr"], 0.0123)
        self.assertEqual(newcomer["forwards"], joined.step, "buffers of integers come along")
        self.assertEqual(len(newcomer["moments"]), 6, "the state of every parameter comes along")
        steps = {int(entry["step"]) for entry in newcomer["moments"].values()}
        self.assertEqual(steps, {newcomer["steps"] if algorithm == "allreduce" else joined.step})
        for worker in (*founders, newcomer):
            self.assertEqual(worker["members"], [0, 1, 2, 3])
        for worker in (founders[0], founders[2], newcomer):
            self.assertEqual((worker["later"], worker["left"], worker["lost"]), ([0, 2, 3], [1], []))
            for own, theirs in zip(worker["mean"], founders[0]["mean"]):
                self.assertTrue(torch.equal(own, theirs))

    def test_with_an_optimizer_of_torch(self):
        self.run_and_check("awc", "torch")

    def test_with_one_of_kith(self):
        self.run_and_check("awc", "kith")

    def test_with_allreduce(self):
        self.run_and_check("allreduce", "kith")

    def test_with_push_sum(self):
        self.run_and_check("sgp", "kith sgd")

    def test_where_the_engine_was_built_anew(self):
        self.run_and_check("awc", "kith", edits=True)


# ---- data


def deals(world, ready, algorithm, ahead):
    """Epochs until two have ended since the newcomer came; what each worker learned from, by epoch."""
    net = make_net()
    opt = kith.optim.SGD(net.parameters(), lr=0.01)
    model = kith.DecentralizedDataParallel(net, opt, algorithm=algorithm, topology="ring")
    sampler = kith.Sampler(SAMPLES, model, BATCH)
    used, ended = collections.defaultdict(list), []
    while len(ended) < 2:
        batches, queue = iter(sampler), collections.deque()  # a loader that draws ahead, played by hand
        for _ in range(ahead):
            queue += [(sampler.epoch, batch) for batch in [next(batches, None)] if batch is not None]
        while True:
            batch = next(batches, None)
            queue += [(sampler.epoch, batch)] if batch is not None else []
            if not queue:
                break
            epoch, batch = queue.popleft()
            if not model._only_mixes:
                used[epoch].append(batch)
            step(world, opt, model)
            if model.steps == 20 and world.rank == 0:
                ready.set()
        if model.size == FOUNDERS + 1:
            ended.append(sampler.epoch)
    return ended, dict(used), model.steps


class Data(unittest.TestCase):
    def deal(self, algorithm, ahead):
        ready = fork.Event()
        results = run_with_newcomer(FOUNDERS, ready, deals, ready, algorithm, ahead)
        (ended,) = {tuple(result[0]) for result in results}
        self.assertEqual(len({result[2] for result in results}), 1, "all end after the same step")
        for epoch, members in zip(ended, (FOUNDERS + 1, FOUNDERS + 1)):
            seen = collections.Counter(s for _, used, _ in results for batch in used.get(epoch, []) for s in batch)
            self.assertEqual(set(seen.values()), {1}, "a sample is in one model")
            # Who comes while a loader has no more to draw leaves out as many batches as that was ahead.
            self.assertGreater(len(seen), SAMPLES - members * BATCH - ahead * BATCH, "and none is forgotten")
        self.assertTrue(results[-1][1].get(ended[1]), "the newcomer learns")

    def test_a_newcomer_is_dealt_its_part(self):
        self.deal("awc", 0)

    def test_a_loader_that_draws_ahead(self):
        self.deal("awc", 4)

    def test_allreduce(self):
        self.deal("allreduce", 0)


def leaves_early(world):
    """Worker 1 leaves in the midst of an epoch."""
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    model = kith.DecentralizedDataParallel(net, opt, topology="ring")
    used = []
    for batch in kith.Sampler(SAMPLES, model, BATCH):
        if world.rank == 1 and model.steps == 7:
            model.finish()
            return used
        used.append(batch)
        step(world, opt, model)
    return used


class Leaves(unittest.TestCase):
    def test_the_others_are_dealt_what_it_had_not_used(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            used = results_of(folder, finish_workers(start_workers(FOUNDERS, folder, leaves_early)))
        self.assertEqual(len(used[1]), 7)
        seen = collections.Counter(sample for batches in used for batch in batches for sample in batch)
        self.assertEqual(set(seen.values()), {1})
        self.assertGreater(len(seen), SAMPLES - 2 * BATCH)


# ---- what goes wrong


def misfits(world, ready, done):
    """The newcomers' model is another one."""
    net = make_net(seed=1) if not world.newcomer else torch.nn.Linear(3, 2).double()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    if world.newcomer:
        told = message_of(kith.InputError, lambda: kith.DecentralizedDataParallel(net, opt))
        done.set()
        return told
    model = kith.DecentralizedDataParallel(net, opt)
    ready.set()
    while not max(model.gather(done.is_set())):
        step(world, opt, model)


def waits_in_vain(world, ready, over):
    """The members do not step, so nobody gives the newcomer a state."""
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    if world.newcomer:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            kith.DecentralizedDataParallel(net, opt)
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            over.set()
    kith.DecentralizedDataParallel(net, opt)
    ready.set()
    over.wait(LIMIT)


def asks_in_its_position(world, ready):
    """The first donor's position asks the model itself; then somebody's does not."""
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    model = kith.DecentralizedDataParallel(net, opt)
    told = []
    model.give_position(lambda: "found" if told else model.gather(0.0))
    if model.joined is None:
        ready.set()
    while model.size < FOUNDERS + 1:
        try:
            step(world, opt, model)
        except kith.InputError as error:
            told.append(str(error))
    until = model._engine.view_began + 3
    while model.steps < until:
        step(world, opt, model)
    return told, model.joined


SCRIPT = """
import sys, time, torch, kith
torch.set_num_threads(1)
world = kith.init(device="cpu")
net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
model = kith.DecentralizedDataParallel(net, opt)
if model.joined:
    print(f"joined view {model.joined.view}", flush=True)
until = None
while until is None or model.steps < until:
    opt.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    opt.step()
    time.sleep(0.002)
    if world.rank == 1 and model.steps == 20:
        raise RuntimeError("breaks")
    if until is None and max(model.members) >= 3:
        until = model._engine.view_began + 20
print(f"ends with {model.members}", flush=True)
"""


class Goes(unittest.TestCase):
    def test_wrong_who_trains_another_model(self):
        ready, done = fork.Event(), fork.Event()
        told = run_with_newcomer(FOUNDERS, ready, misfits, ready, done)[-1]
        self.assertIn("the job trains with", told)

    def test_away_who_is_interrupted_while_it_joins(self):
        ready, over = fork.Event(), fork.Event()
        self.assertEqual(run_with_newcomer(2, ready, waits_in_vain, ready, over)[-1], "interrupted")

    def test_wrong_who_asks_the_model_for_its_position(self):
        ready = fork.Event()
        *founders, newcomer = run_with_newcomer(FOUNDERS, ready, asks_in_its_position, ready)
        told = [words for founder in founders for words in founder[0]]
        self.assertEqual(len(told), 1, "who was asked")
        self.assertIn("give_position()", told[0])
        self.assertEqual(newcomer[1].position, "found")

    def test_on_with_a_replacement_that_the_launcher_starts(self):
        """A worker that ends by an exception does not end the job for newcomers."""
        kith_command = os.path.join(BUILD, "bin", "kith")
        done = subprocess.run(
            [kith_command, "launch", "--elastic", "2:3", "--", sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("RuntimeError: breaks", done.stderr)
        self.assertRegex(done.stdout, r"\[3\] joined view [12]")
        for worker in (0, 2, 3):
            self.assertIn(f"[{worker}] ends with [0, 2, 3]", done.stdout)


if __name__ == "__main__":
    main()
