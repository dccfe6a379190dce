"""Signals, lost workers, and the interpreter's lock."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import torch

import kith
from support import (
    DEVICE,
    environment_of,
    finish_workers,
    interrupt_self,
    load_result,
    loss_of,
    main,
    make_net,
    message_of,
    run_workers,
    start_workers,
)
from support import _fork as fork

PATIENCE = 60.0  # of steps; whoever ends sooner did not wait it out


def wrap(**options):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    return opt, kith.DecentralizedDataParallel(net, opt, topology="complete", patience=PATIENCE, **options)


def step(world, opt, model):
    opt.zero_grad(set_to_none=True)
    loss_of(model, world.rank, model.steps).backward()
    opt.step()


# ---- signals


def interrupt_in_a_wait():
    """Interrupts the main thread once it has been seen at one place, where it lets others run, for a while."""
    place, times = None, 0
    while times < 30:
        frame = sys._current_frames()[threading.main_thread().ident]
        found = frame.f_code, frame.f_lasti
        place, times = found, times + 1 if found == place else 0
        time.sleep(0.01)
    interrupt_self()


def interrupted_step(world, over, algorithm):
    opt, model = wrap(algorithm=algorithm, on_lost="carry_on")
    step(world, opt, model)
    if world.rank == 1:
        over.wait(PATIENCE)  # the neighbour waits in vain
        return None
    began = time.monotonic()
    try:
        threading.Thread(target=interrupt_in_a_wait, daemon=True).start()
        # A step of awc needs what the neighbour published before it; the one after that it lacks.
        for _ in range(3):
            step(world, opt, model)
        return "no interrupt"
    except KeyboardInterrupt:
        took = time.monotonic() - began
        later = message_of(kith.Error, lambda: opt.step())
        return took, later
    finally:
        over.set()


def interrupted_wrapping(world, over):
    if world.rank == 1:
        over.wait(PATIENCE)
        return None
    began = time.monotonic()
    try:
        threading.Thread(target=interrupt_in_a_wait, daemon=True).start()
        wrap()
    except KeyboardInterrupt:
        return time.monotonic() - began
    finally:
        over.set()


def handled_signal(world, handled):
    """A handler that does not raise is called in the midst of a wait, and the wait goes on."""
    opt, model = wrap(algorithm="atc")
    signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    if world.rank == 1:
        assert handled.wait(PATIENCE)
        step(world, opt, model)
        return None
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    step(world, opt, model)
    return model.report().late, handled.is_set()


def other_threads(world, go):
    """While a step waits, other threads of the interpreter run: one of them lets the neighbour go on."""
    opt, model = wrap(algorithm="atc")
    if world.rank == 1:
        assert go.wait(PATIENCE)
        step(world, opt, model)
        return None

    def work():
        for _ in range(50):
            time.sleep(0.004)
        go.set()

    threading.Thread(target=work, daemon=True).start()
    step(world, opt, model)
    return model.report().late


class Signals(unittest.TestCase):
    def test_an_interrupt_ends_a_step_that_waits(self):
        # On a GPU allreduce waits in a thread of autograd's, where Python sees no signals (docs/python.md, "Failures").
        for algorithm in ("awc", "atc") if DEVICE.type == "cuda" else ("awc", "atc", "allreduce"):
            with self.subTest(algorithm=algorithm):
                took, later = run_workers(2, interrupted_step, fork.Event(), algorithm)[0]
                self.assertLess(took, PATIENCE / 4)
                self.assertIn("interrupted", later)

    def test_an_interrupt_ends_wrapping(self):
        took = run_workers(2, interrupted_wrapping, fork.Event())[0]
        self.assertLess(took, PATIENCE / 4)

    def test_a_handler_that_does_not_raise_leaves_the_step_alone(self):
        self.assertEqual(run_workers(2, handled_signal, fork.Event())[0], ([], True))

    def test_other_threads_run_while_a_step_waits(self):
        self.assertEqual(run_workers(2, other_threads, fork.Event())[0], [])


SCRIPT = """
import sys, torch, kith
torch.set_num_threads(1)
if sys.argv[1] == "joining":
    print("ready", flush=True)
world = kith.init(device=sys.argv[2])
net = torch.nn.Linear(3, 2).to(world.device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
model = kith.DecentralizedDataParallel(net, opt)
while True:
    opt.zero_grad()
    model(torch.ones(1, 3, device=world.device)).sum().backward()
    opt.step()
    if model.steps == 3:
        print("ready", flush=True)
"""


class Scripts(unittest.TestCase):
    """Whole programs, interrupted as by Ctrl-C: they end by it, with a traceback of Python's and nothing worse."""

    def interrupt(self, stage, workers, started):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            processes = [
                subprocess.Popen(
                    [sys.executable, "-c", SCRIPT, stage, str(DEVICE)],
                    env={**os.environ, **environment_of(w, workers, os.path.join(folder, "store"))},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for w in range(started)
            ]
            try:
                for process in processes:
                    self.assertEqual(process.stdout.readline(), "ready\n")
                if stage == "joining":
                    time.sleep(0.3)  # into the wait
                for process in processes:
                    process.send_signal(signal.SIGINT)
                for process in processes:
                    _, told = process.communicate(timeout=60)
                    # 1: how a program of torch 2 ends of Ctrl-C, also without kith.
                    self.assertIn(process.returncode, (-signal.SIGINT, 1), told)
                    self.assertIn("KeyboardInterrupt", told)
                    for word in ("Fatal", "terminate called", "Segmentation"):
                        self.assertNotIn(word, told)
            finally:
                for process in processes:
                    process.kill()
                    process.wait()

    def test_ctrl_c_ends_training(self):
        self.interrupt("training", 2, 2)

    def test_ctrl_c_ends_joining(self):
        self.interrupt("joining", 2, 1)


# ---- lost workers


def killed_neighbour(world, on_lost):
    opt, model = wrap(on_lost=on_lost)
    step(world, opt, model)
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        while not model.report().lost:
            step(world, opt, model)
    except kith.Error as error:
        return str(error), time.monotonic() - began
    lost = list(model.report().lost)
    step(world, opt, model)
    return lost, time.monotonic() - began


def going_on(world):
    opt, model = wrap()
    step(world, opt, model)
    if world.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    while model.steps < 30:
        step(world, opt, model)
    spread = model.gather(world.rank)
    with model.average():
        pass
    return model.members, model.report().view, spread, model.steps


class Lost(unittest.TestCase):
    def run_with(self, on_lost):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            codes = finish_workers(start_workers(2, folder, killed_neighbour, (on_lost,)))
            self.assertEqual(codes, [0, -signal.SIGKILL])
            return load_result(folder, 0)

    def test_a_dead_worker_is_named(self):
        told, took = self.run_with("fail")
        self.assertIn("worker 1 is gone", told)
        self.assertIn("worker 0, step", told)
        self.assertLess(took, PATIENCE / 4)

    def test_the_others_go_on_by_default(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            codes = finish_workers(start_workers(3, folder, going_on, ()))
            self.assertEqual(codes, [-signal.SIGKILL, 0, 0])
            for rank in (1, 2):
                members, view, spread, steps = load_result(folder, rank)
                self.assertEqual((members, view, steps), ([1, 2], 1, 30))
                self.assertEqual(spread, [1.0, 2.0])

    def test_or_reported_where_that_is_asked(self):
        lost, took = self.run_with("carry_on")
        self.assertEqual(lost, [1])
        self.assertLess(took, PATIENCE / 4)


if __name__ == "__main__":
    main()
