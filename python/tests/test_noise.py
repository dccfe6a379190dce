"""Rates that know how much of a gradient is noise: Note [Rates for noisy gradients] in kith/train/noise_meter.h."""

import os
import tempfile
import unittest

import torch

import kith
from support import DEVICE, MIXING, batch, gradient_vector, main, make_net, message_of, run_alone, run_workers, set_vector, vector

WORKERS, STEPS, SAVED, SAMPLES = 4, 20, 9, 6
LR, DECAY, BETAS, EPS = 4e-3, 0.03, (0.9, 0.98), 1e-8


def first_of(step):
    """Samples of the first of two passes; 0: one pass, nothing is measured."""
    return 2 if step % 2 == 0 else 0


def loss_of(net, rank, step, begin, end):
    """The part of a batch's loss that these samples bring."""
    x, y = batch(rank, step, size=SAMPLES)
    return (end - begin) / SAMPLES * torch.nn.functional.mse_loss(net(x[begin:end]), y[begin:end])


def measured_step(world, model, opt):
    step = model.steps
    first = first_of(step)
    opt.zero_grad(set_to_none=True)
    if first:
        with model.no_sync():
            loss_of(model, world.rank, step, 0, first).backward()
        model.measure_noise(first / SAMPLES)
    loss_of(model, world.rank, step, first, SAMPLES).backward()
    opt.step()


def adamw(net):
    return kith.optim.AdamW(net.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)


def train(world):
    net = make_net()
    opt = adamw(net)
    model = kith.DecentralizedDataParallel(net, opt, topology="exp", stagger=False, bucket_bytes=100)
    assert model.corrects_noise and model.noise_share() == 0 and model.rate_factor("0.bias") == 1
    for _ in range(STEPS):
        measured_step(world, model, opt)
    return vector(net), [model.rate_factor(name) for name, _ in net.named_parameters()], model.noise_share()


class Plain:
    """What the note says, in loops."""

    def __init__(self):
        self.net = make_net()
        self.ends = torch.tensor([0] + [p.numel() for p in self.net.parameters()]).cumsum(0).tolist()
        count, parameters = self.ends[-1], len(self.ends) - 1
        self.m, self.v = (torch.zeros(WORKERS, count, dtype=torch.float64) for _ in range(2))
        self.noise, self.square = (torch.zeros(WORKERS, parameters, dtype=torch.float64) for _ in range(2))

    def factor(self, rank, p):
        square = self.square[rank, p].item()
        share = min(1.0, self.noise[rank, p].item() / square) if square > 0 else 0.0
        return 1 / (1 - share * (1 - 1 / WORKERS)) ** 0.5

    def gradient(self, x, rank, step, begin, end):
        """Of the mean over these samples."""
        set_vector(self.net, x)
        self.net.zero_grad(set_to_none=True)
        loss_of(self.net, rank, step, begin, end).backward()
        return gradient_vector(self.net) * SAMPLES / (end - begin)

    def train(self):
        models = [vector(self.net)] * WORKERS
        for t in range(STEPS):
            w = MIXING["exp"][1](t)
            mixed = [sum(w[i, j] * models[j] for j in range(WORKERS)) for i in range(WORKERS)]
            models = [self.step(rank, t, models[rank], mixed[rank]) for rank in range(WORKERS)]
        return models

    def step(self, rank, t, x, mixed):
        whole = self.gradient(x, rank, t, 0, SAMPLES)
        m, v = self.m[rank], self.v[rank]
        m.mul_(BETAS[0]).add_(whole, alpha=1 - BETAS[0])
        v.mul_(BETAS[1]).add_(whole * whole, alpha=1 - BETAS[1])
        direction = m / (1 - BETAS[0] ** (t + 1)) / ((v / (1 - BETAS[1] ** (t + 1))).sqrt() + EPS)
        factors = torch.ones_like(x)
        for p, (a, b) in enumerate(zip(self.ends, self.ends[1:])):
            factors[a:b] = self.factor(rank, p)
        if first_of(t):
            self.measure(rank, t, x, whole, first_of(t))
        return mixed - LR * (DECAY * mixed + factors * direction)

    def measure(self, rank, t, x, whole, k):
        """The variance of the difference of two means over k and l samples is that of one sample times 1/k + 1/l."""
        rest = SAMPLES - k
        apart = self.gradient(x, rank, t, 0, k) - self.gradient(x, rank, t, k, SAMPLES)
        for p, (a, b) in enumerate(zip(self.ends, self.ends[1:])):
            noise = apart[a:b].square().sum() / (1 / k + 1 / rest) / SAMPLES
            self.noise[rank, p] = 0.8 * self.noise[rank, p] + 0.2 * noise
            self.square[rank, p] = 0.8 * self.square[rank, p] + 0.2 * whole[a:b].square().sum()


def loops(_):
    plain = Plain()
    models = plain.train()
    return models, [[plain.factor(r, p) for p in range(len(plain.ends) - 1)] for r in range(WORKERS)], plain.noise, plain.square


def saves_or_resumes(world, folder, resumes):
    net = make_net(seed=2 if resumes else 1)
    opt = adamw(net)
    model = kith.DecentralizedDataParallel(net, opt, topology="exp")
    path = os.path.join(folder, str(world.rank))
    if resumes:
        saved = torch.load(path, map_location=DEVICE)
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["optimizer"])
    while model.steps < STEPS:
        measured_step(world, model, opt)
        if model.steps == SAVED and not resumes:
            torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, path)
    return vector(net), model.noise_share()


OTHERS = {  # where there is nothing to mend
    "sgd": (lambda p: kith.optim.SGD(p, lr=LR), {}),
    "torch's": (lambda p: torch.optim.AdamW(p, lr=LR), {}),
    "allreduce": (lambda p: kith.optim.AdamW(p, lr=LR), {"algorithm": "allreduce"}),
    "dsgt": (lambda p: kith.optim.AdamW(p, lr=LR), {"algorithm": "dsgt"}),
}


def without_effect(world, name, measures):
    make, options = OTHERS[name]
    net = make_net()
    opt = make(net.parameters())
    model = kith.DecentralizedDataParallel(net, opt, topology="exp", **options)
    for _ in range(4):
        opt.zero_grad(set_to_none=True)
        with model.no_sync():
            loss_of(model, world.rank, model.steps, 0, 2).backward()
        if measures:
            model.measure_noise(2 / SAMPLES)
        loss_of(model, world.rank, model.steps, 2, SAMPLES).backward()
        opt.step()
    return vector(net), model.corrects_noise, model.noise_share()


def refusals(world):
    net = make_net()
    model = kith.DecentralizedDataParallel(net, adamw(net), topology="exp")
    told = [message_of(kith.InputError, lambda share=share: model.measure_noise(share)) for share in (0, 1, float("nan"))]
    told.append(message_of(kith.InputError, lambda: model.rate_factor("1.weight")))
    other = make_net()
    node = kith.DecentralizedDataParallel(other, adamw(other), topology="exp", inside="allreduce", nodes="2")
    told.append(message_of(kith.InputError, node.measure_noise))
    return told


class NoisyGradients(unittest.TestCase):
    def test_rates_are_those_of_the_plain_loop(self):
        models, factors, noise, square = run_alone(loops)
        for rank, (found, own, share) in enumerate(run_workers(WORKERS, train)):
            self.assertLess((found - models[rank]).abs().max().item(), 1e-10)
            self.assertGreater(max(factors[rank]), 1.02)
            for a, b in zip(own, factors[rank]):
                self.assertAlmostEqual(a, b, places=9)
                self.assertGreater(b, 1.001)
            self.assertAlmostEqual(share, (noise[rank].sum() / square[rank].sum()).item(), places=9)

    def test_what_was_measured_is_saved(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            whole = run_workers(2, saves_or_resumes, folder, False)
            resumed = run_workers(2, saves_or_resumes, folder, True)
        for (a, share), (b, again) in zip(whole, resumed):
            self.assertTrue(torch.equal(a, b))
            self.assertGreater(share, 0)
            self.assertEqual(share, again)

    def test_nothing_happens_where_there_is_nothing_to_mend(self):
        for name in OTHERS:
            with self.subTest(name):
                plain, measured = (run_workers(2, without_effect, name, measures) for measures in (False, True))
                for (a, _, _), (b, corrects, share) in zip(plain, measured):
                    self.assertTrue(torch.equal(a, b))
                    self.assertEqual((corrects, share), (False, 0.0))

    def test_refusals(self):
        expected = ("a share of 0", "a share of 1", "a share of nan", "no parameter '1.weight'", 'inside="allreduce"')
        for words, message in zip(expected, run_workers(2, refusals)[0]):
            self.assertIn(words, message)


if __name__ == "__main__":
    main()
