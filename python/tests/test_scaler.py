"""Gradients with inf: one worker does not move, and nobody waits for it."""

import unittest

import torch

import kith
import plain
from support import DEVICE, MIXING, loss_of, main, make_net, run_alone, run_workers, vector

STEPS, OVERFLOW = 6, (1, 2)  # rank, step
PATIENCE = 20.0


class StrictAdam(torch.optim.Adam):
    """Refuses, as torch 2's own do, to step where a scaler has left its words."""

    def step(self, closure=None):
        assert not hasattr(self, "grad_scale") and not hasattr(self, "found_inf")
        return super().step(closure)


class ScalingAdam(torch.optim.Adam):
    """Knows of scalers, as torch's do with fused=True: does nothing where found_inf says so."""

    _step_supports_amp_scaling = True

    def step(self, closure=None):
        scale = getattr(self, "grad_scale", None)
        if bool(self.found_inf.item()):
            return None
        if scale is not None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.div_(float(scale))
        words = {name: vars(self).pop(name) for name in ("grad_scale", "found_inf") if name in vars(self)}  # StrictAdam says why
        try:
            return super().step(closure)
        finally:
            vars(self).update(words)


OPTIMIZERS = {
    "wrapped": lambda p: StrictAdam(p, lr=0.01),
    "scaling": lambda p: torch.optim.Adam(p, lr=0.01, fused=True) if DEVICE.type == "cuda" else ScalingAdam(p, lr=0.01),
    "fused": lambda p: kith.optim.Adam(p, lr=0.01, betas=(0.9, 0.999)),
}


class PlainScaler:
    """What torch's GradScaler does with an optimizer that has _step_supports_amp_scaling; torch 1.13's own needs a GPU."""

    def __init__(self):
        self.factor, self.overflowed = torch.tensor(1024.0), False

    def scale(self, loss):
        return loss * self.factor

    def step(self, optimizer):
        assert optimizer._step_supports_amp_scaling
        gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.overflowed = not all(bool(torch.isfinite(g).all()) for g in gradients)
        optimizer.grad_scale, optimizer.found_inf = self.factor, torch.tensor(float(self.overflowed))
        optimizer.step()
        del optimizer.grad_scale, optimizer.found_inf

    def update(self):
        if self.overflowed:
            self.factor = self.factor / 2

    def get_scale(self):
        return float(self.factor)


def make_scaler():
    """Torch's own where it serves this device."""
    if DEVICE.type == "cuda":
        return torch.cuda.amp.GradScaler(init_scale=1024.0)
    if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler("cpu", init_scale=1024.0)
    return PlainScaler()


def train(world, optimizer, algorithm, scaled):
    net = make_net()
    opt = OPTIMIZERS[optimizer](net.parameters())
    model = kith.DecentralizedDataParallel(
        net, opt, topology="exp", algorithm=algorithm, stagger=False, patience=PATIENCE, non_finite="use" if scaled else "skip"
    )
    scaler = make_scaler()
    skipped, late = [], []
    for t in range(STEPS):
        opt.zero_grad(set_to_none=True)
        loss = loss_of(model, world.rank, t)
        if (world.rank, t) == OVERFLOW:
            loss = loss * float("inf")
        if scaled:
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        else:
            loss.backward()
            opt.step()
        skipped.append(model.report().skipped)
        late += model.report().late
    return vector(net), skipped, late, scaler.get_scale()


class Overflow(unittest.TestCase):
    def expect(self, optimizer, algorithm, scaled):
        everybody = [(rank, OVERFLOW[1]) for rank in range(4)]
        skips = everybody if algorithm == "allreduce" else [OVERFLOW]
        make = lambda count: plain.Rule(count, lambda p: torch.optim.Adam(p, lr=0.01))
        expected = run_alone(lambda _: plain.train(algorithm, make, MIXING["exp"][1], STEPS, skipped=skips))
        for rank, (found, skipped, late, scale) in enumerate(run_workers(4, train, optimizer, algorithm, scaled)):
            with self.subTest(optimizer=optimizer, algorithm=algorithm, scaled=scaled, rank=rank):
                self.assertEqual(skipped, [(rank, t) in skips for t in range(STEPS)])
                self.assertEqual(late, [])
                self.assertLess((found - expected[rank]).abs().max().item(), 1e-10)
                if scaled:
                    self.assertEqual(scale, 512.0 if (rank, OVERFLOW[1]) in skips else 1024.0)

    def test_a_gradient_scaler_that_skips_a_step_keeps_nobody_waiting(self):
        for optimizer in OPTIMIZERS:
            for algorithm in ("awc", "allreduce"):
                self.expect(optimizer, algorithm, True)

    def test_without_a_scaler_the_step_is_skipped_too(self):
        for optimizer in OPTIMIZERS:
            for algorithm in ("awc", "allreduce"):
                self.expect(optimizer, algorithm, False)


if __name__ == "__main__":
    main()
