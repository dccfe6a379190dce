"""kith.optim: in the engine's pass, against torch's optimizers and plain loops."""

import unittest

import torch

import kith
import plain
from support import MIXING, loss_of, main, make_net, run_alone, run_workers, vector

STEPS, LR = 20, 0.01
BETAS = (0.9, 0.98)

# name: (fused, rule on vectors without decay, decay of the averaged model)
CASES = {
    "SGD": (lambda p: kith.optim.SGD(p, lr=LR), lambda p: torch.optim.SGD(p, lr=LR), 0.0),
    "SGD, momentum": (
        lambda p: kith.optim.SGD(p, lr=LR, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9, nesterov=True),
        0.0,
    ),
    "Adam": (lambda p: kith.optim.Adam(p, lr=LR, betas=BETAS), lambda p: torch.optim.Adam(p, lr=LR, betas=BETAS), 0.0),
    "AdamW": (
        lambda p: kith.optim.AdamW(p, lr=LR, betas=BETAS, weight_decay=0.3),
        lambda p: torch.optim.AdamW(p, lr=LR, betas=BETAS, weight_decay=0.0),
        0.3,
    ),
    "AccumAdamW": (
        lambda p: kith.optim.AccumAdamW(p, lr=LR, betas=BETAS, weight_decay=0.2, commit_every=3),
        None,
        0.2,
    ),
}
RUNS = [(name, algorithm, topology) for name in CASES for algorithm, topology in
        (("awc", "exp"), ("awc", "aer"), ("atc", "complete"), ("allreduce", "exp"))]


def train(world):
    found = []
    for name, algorithm, topology in RUNS:
        net = make_net()
        opt = CASES[name][0](net.parameters())
        model = kith.DecentralizedDataParallel(
            net, opt, algorithm=algorithm, topology=topology, nodes=MIXING[topology][0], stagger=False, bucket_bytes=100
        )
        addresses = [p.data_ptr() for p in net.parameters()]
        for t in range(STEPS):
            opt.zero_grad(set_to_none=True)
            loss_of(model, world.rank, t).backward()
            opt.step()
        assert addresses == [p.data_ptr() for p in net.parameters()]
        found.append(vector(net))
        model.barrier()
        model.close()
    return found


def loops(_):
    found = []
    for name, algorithm, topology in RUNS:
        _, rule, decay = CASES[name]
        if rule is None:
            make = lambda count: plain.AccumAdam(count, LR, BETAS, 1e-8, 3)
        else:
            make = lambda count: plain.Rule(count, rule)
        found.append(plain.train(algorithm, make, MIXING[topology][1], STEPS, decay=decay, lr=LR))
    return found


def against_wrapped(world, dtype):
    """Without decay the wrapped optimizer and the fused one are one and the same."""
    found = []
    for make in (
        lambda p: torch.optim.AdamW(p, lr=LR, betas=BETAS, weight_decay=0.0),
        lambda p: kith.optim.AdamW(p, lr=LR, betas=BETAS, weight_decay=0.0),
        lambda p: torch.optim.SGD(p, lr=LR, momentum=0.9),
        lambda p: kith.optim.SGD(p, lr=LR, momentum=0.9),
    ):
        net = make_net(dtype)
        opt = make(net.parameters())
        model = kith.DecentralizedDataParallel(net, opt, topology="exp", stagger=False)
        for t in range(STEPS):
            opt.zero_grad(set_to_none=True)
            loss_of(model, world.rank, t, dtype).backward()
            opt.step()
        found.append(vector(net))
    return found


class Fused(unittest.TestCase):
    def test_follow_the_plain_loops(self):
        workers, expected = run_workers(4, train), run_alone(loops)
        for k, case in enumerate(RUNS):
            for rank in range(4):
                with self.subTest(case=case, rank=rank):
                    self.assertLess((workers[rank][k] - expected[k][rank]).abs().max().item(), 1e-10)

    def test_equal_the_wrapped_ones_without_decay(self):
        for dtype, most in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            for adamw, fused_adamw, sgd, fused_sgd in run_workers(4, against_wrapped, dtype):
                self.assertLess((adamw - fused_adamw).abs().max().item(), most)
                self.assertLess((sgd - fused_sgd).abs().max().item(), most)


# ---- they are torch's optimizers


def groups_and_schedulers(world):
    net = make_net()
    decayed = [p for p in net.parameters() if p.dim() > 1]
    plain_ones = [p for p in net.parameters() if p.dim() == 1]
    groups = lambda: [{"params": decayed, "weight_decay": 0.1}, {"params": plain_ones, "lr": 0.02}]
    theirs_net = make_net()
    theirs = [p for p in theirs_net.parameters()]
    opt = kith.optim.AdamW(groups(), lr=LR, betas=BETAS, weight_decay=0.0)
    reference = torch.optim.AdamW(
        [
            {"params": [p for p in theirs if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in theirs if p.dim() == 1], "lr": 0.02},
        ],
        lr=LR,
        betas=BETAS,
        weight_decay=0.0,
    )
    model = kith.DecentralizedDataParallel(net, opt)
    schedulers = [torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=STEPS + 1, cycle_momentum=False)
                  for o in (opt, reference)]
    rates = []
    for t in range(STEPS):
        for n, o, s in ((model, opt, schedulers[0]), (theirs_net, reference, schedulers[1])):
            o.zero_grad(set_to_none=True)
            loss_of(n, 0, t).backward()
            o.step()
            s.step()
        rates.append(opt.param_groups[0]["lr"])
    state = opt.state_dict()
    return vector(net), vector(theirs_net), rates, state, reference.state_dict(), isinstance(opt, torch.optim.Optimizer)


def observed(world):
    """One step that nobody observes, one under a profiler, one with hooks."""
    net = make_net()
    opt = kith.optim.AdamW(net.parameters(), lr=LR)
    model = kith.DecentralizedDataParallel(net, opt)
    hooked = []

    def step():
        opt.zero_grad(set_to_none=True)
        loss_of(model, world.rank, model.steps).backward()
        opt.step()

    step()
    with torch.profiler.profile() as seen:
        step()
    if hasattr(opt, "register_step_post_hook"):
        opt.register_step_pre_hook(lambda *_: hooked.append("before"))
        opt.register_step_post_hook(lambda *_: hooked.append("after"))
    step()
    return [event.key for event in seen.key_averages()], hooked, model.steps


class Torch(unittest.TestCase):
    def test_groups_schedulers_and_state_are_torchs(self):
        ours, theirs, rates, state, reference, is_optimizer = run_alone(groups_and_schedulers)
        self.assertTrue(is_optimizer)
        self.assertGreater(len(set(rates)), STEPS // 2)
        self.assertLess((ours - theirs).abs().max().item(), 1e-12)
        self.assertEqual([g["params"] for g in state["param_groups"]], [g["params"] for g in reference["param_groups"]])
        for i, entry in reference["state"].items():
            for key in ("exp_avg", "exp_avg_sq"):
                self.assertLess((state["state"][i][key] - entry[key]).abs().max().item(), 1e-12)
            self.assertEqual(float(state["state"][i]["step"]), float(entry["step"]))

    def test_profilers_and_hooks_see_the_step(self):
        names, hooked, steps = run_alone(observed)
        self.assertIn("Optimizer.step#AdamW.step", names)
        self.assertEqual(steps, 3)
        if hasattr(torch.optim.Optimizer, "register_step_post_hook"):  # torch 2
            self.assertEqual(hooked, ["before", "after"])

    def test_defaults_are_the_engines(self):
        net, engine = torch.nn.Linear(2, 1), kith._kith.Options()
        group = kith.optim.AccumAdamW(net.parameters()).param_groups[0]
        self.assertEqual((group["lr"], group["weight_decay"]), (engine.lr, engine.weight_decay))
        self.assertEqual((*group["betas"], group["eps"]), (engine.beta1, engine.beta2, engine.eps))
        self.assertEqual(group["commit_every"], engine.commit_every)
        self.assertEqual(kith.optim.AdamW(net.parameters()).param_groups[0]["betas"], group["betas"])


if __name__ == "__main__":
    main()
