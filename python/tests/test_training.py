"""What a training loop does besides stepping: accumulation, clipping, averages, buffers, schedulers, closures."""

import unittest

import torch

import kith
import plain
from support import DEVICE, MIXING, loss_of, main, make_net, run_alone, run_workers, vector


def wrap(net, opt, **options):
    return kith.DecentralizedDataParallel(net, opt, **{"stagger": False, **options})


# ---- accumulation


def accumulate(world, algorithm, guarded):
    """Two micro-batches a step."""
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    model = wrap(net, opt, topology="exp", algorithm=algorithm)
    for t in range(6):
        opt.zero_grad(set_to_none=True)
        if guarded:
            with model.no_sync():
                (loss_of(model, world.rank, 2 * t) / 2).backward()
            (loss_of(model, world.rank, 2 * t + 1) / 2).backward()
        else:
            ((loss_of(model, world.rank, 2 * t) + loss_of(model, world.rank, 2 * t + 1)) / 2).backward()
        opt.step()
    return vector(net)


def second_backward(world):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    model = wrap(net, opt, algorithm="allreduce")
    loss_of(model, world.rank, 0).backward()
    try:
        loss_of(model, world.rank, 1).backward()
    except kith.InputError as error:
        return str(error)


def step_under_no_sync(world):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    model = wrap(net, opt)
    try:
        with model.no_sync():
            loss_of(model, world.rank, 0).backward()
            opt.step()
    except kith.InputError as error:
        return str(error)


class NoSync(unittest.TestCase):
    def test_micro_batches_add_up(self):
        for algorithm in ("awc", "allreduce"):
            once = run_workers(4, accumulate, algorithm, False)
            twice = run_workers(4, accumulate, algorithm, True)
            for a, b in zip(once, twice):
                self.assertLess((a - b).abs().max().item(), 1e-12, algorithm)

    def test_a_second_backward_outside_is_named(self):
        for told in run_workers(2, second_backward):
            self.assertIn("has a second gradient in one step", told)
            self.assertIn("no_sync()", told)

    def test_a_step_inside_is_named(self):
        self.assertIn("step() under no_sync()", run_alone(step_under_no_sync))


# ---- gradients


def clipped(world, algorithm, how):
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.3)
    model = wrap(net, opt, topology="exp", algorithm=algorithm)
    for t in range(10):
        opt.zero_grad(set_to_none=True)
        loss_of(model, world.rank, t).backward()
        if how == "torch":
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        else:
            model.clip_grad_norm(0.1)
        opt.step()
    return vector(net)


def gradients_after_backward(world):
    """All-reduce: .grad is everybody's mean when backward returns, also of a parameter that not all have used."""
    net = make_net()
    extra = torch.nn.Parameter(torch.ones(3, dtype=torch.float64, device=DEVICE))
    net.register_parameter("extra", extra)
    idle = torch.nn.Parameter(torch.ones(2, dtype=torch.float64, device=DEVICE))
    net.register_parameter("idle", idle)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    model = wrap(net, opt, algorithm="allreduce")
    loss = loss_of(model, world.rank, 0)
    if world.rank == 1:
        loss = loss + 6 * extra.sum()
    loss.backward()
    found = [p.grad.clone() for p in net[0].parameters()], extra.grad.clone(), idle.grad
    opt.step()
    return (*found, extra.detach().cpu())


class Gradients(unittest.TestCase):
    def test_clipping_is_ddps(self):
        for algorithm in ("awc", "allreduce"):
            make = lambda count: plain.Rule(count, lambda p: torch.optim.SGD(p, lr=0.3))
            expected = run_alone(lambda _: plain.train(algorithm, make, MIXING["exp"][1], 10, norm=0.1))
            for how in ("torch", "kith"):
                for rank, found in enumerate(run_workers(4, clipped, algorithm, how)):
                    self.assertLess((found - expected[rank]).abs().max().item(), 1e-10, (algorithm, how))

    def test_hold_the_mean_after_backward(self):
        def by_hand(_):
            found = []
            for rank in range(2):
                net = make_net()
                loss_of(net, rank, 0).backward()
                found.append([p.grad for p in net[0].parameters()])
            return [(a + b) / 2 for a, b in zip(*found)]

        expected = run_alone(by_hand)
        for own, extra, idle, moved in run_workers(2, gradients_after_backward):
            for a, b in zip(own, expected):
                self.assertLess((a - b).abs().max().item(), 1e-14)
            self.assertTrue(torch.equal(extra, torch.full_like(extra, 3.0)))
            self.assertIsNone(idle)
            self.assertLess((moved - 0.7).abs().max().item(), 1e-14)


# ---- everybody together


class WithBuffers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))

    def forward(self, x):
        return self.inner(x)


def averages(world):
    torch.manual_seed(world.rank)  # different starts: rank 0's counts
    net = WithBuffers().to(DEVICE)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    model = wrap(net, opt, algorithm="none")
    start = vector(net), net.inner[1].running_mean.clone()
    for t in range(3):
        opt.zero_grad(set_to_none=True)
        loss_of(model, world.rank, t, torch.float32).backward()
        opt.step()
    own = vector(net), net.inner[1].running_mean.clone(), [p.data_ptr() for p in net.parameters()]
    distance = model.consensus_distance()
    with model.average():
        mean = vector(net), net.inner[1].running_mean.clone()
        assert own[2] == [p.data_ptr() for p in net.parameters()]
        refused = ""
        try:
            opt.step()
        except kith.InputError as error:
            refused = str(error)
    after = vector(net), net.inner[1].running_mean.clone()
    assert torch.equal(after[0], own[0]) and torch.equal(after[1], own[1])
    return start, own[:2], mean, distance, refused, model.gather(world.rank + 0.5)


class Average(unittest.TestCase):
    def test_is_the_mean_and_then_everything_is_as_before(self):
        workers = run_workers(3, averages)
        mean = sum(own[0] for _, own, *_ in workers) / 3
        statistics = sum(own[1] for _, own, *_ in workers) / 3
        squares = sum(((own[0] - mean) ** 2).sum().item() for _, own, *_ in workers) / 3
        for start, own, seen, distance, refused, gathered in workers:
            self.assertTrue(torch.equal(start[0], workers[0][0][0]), "all begin with rank 0's")
            self.assertTrue(torch.equal(start[1], workers[0][0][1]))
            self.assertGreater((own[0] - mean).abs().max().item(), 1e-3)
            self.assertLess((seen[0] - mean).abs().max().item(), 1e-6)
            self.assertLess((seen[1] - statistics).abs().max().item(), 1e-6)
            self.assertAlmostEqual(distance, squares**0.5, places=5)
            self.assertIn("step() under average()", refused)
            self.assertEqual(gathered, [0.5, 1.5, 2.5])


# ---- torch's habits


def habits(world):
    """A scheduler made before wrapping and one after, a closure, groups, a frozen parameter."""
    net = make_net()
    net[2].bias.requires_grad_(False)
    opt = torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.01}], lr=0.1)
    before = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
    model = wrap(net, opt, topology="complete")
    after = torch.optim.lr_scheduler.LambdaLR(opt, lambda t: 1.0)
    del after
    start = vector(net)
    rates, losses = [], []

    def closure():
        opt.zero_grad(set_to_none=True)
        loss = loss_of(model, world.rank, 0)
        loss.backward()
        return loss

    for _ in range(3):
        rates.append([g["lr"] for g in opt.param_groups])
        losses.append(opt.step(closure).item())
        before.step()
    assert opt._step_count == 3 if hasattr(opt, "_step_count") else True
    return start, vector(net), rates, losses


def one_frozen(world):
    """What has no gradient is averaged and not moved."""
    net = torch.nn.Linear(2, 1, bias=False).to(DEVICE)
    net.other = torch.nn.Parameter(torch.full((2,), float(world.rank), device=DEVICE))
    opt = torch.optim.SGD(net.parameters(), lr=1.0)
    wrap(net, opt, topology="complete", same_start=False)
    net(torch.ones(1, 2, device=DEVICE)).sum().backward()
    opt.step()
    return net.other.detach().cpu()


def odd_gradients(world, fused, odd):
    """One sparse, one laid out otherwise, one missing, one of a parameter that was frozen after; then plain ones again."""
    net = torch.nn.Module()
    net.table = torch.nn.Embedding(5, 3, sparse=True).double().to(DEVICE)
    for name in ("turned", "missing", "frozen", "plain"):
        net.register_parameter(name, torch.nn.Parameter(torch.ones(4, 3, dtype=torch.float64, device=DEVICE)))
    opt = (kith.optim.SGD if fused else torch.optim.SGD)(net.parameters(), lr=0.5)
    wrap(net, opt)
    before = [p.detach().clone() for p in net.parameters()]
    for p in net.parameters():
        p.grad = torch.arange(p.numel(), dtype=torch.float64, device=DEVICE).view(p.shape)
    if odd:
        net.table.weight.grad = None
        net.table(torch.tensor([1, 3, 3], device=DEVICE)).sum().backward()
        assert net.table.weight.grad.is_sparse
        net.turned.grad = torch.arange(12, dtype=torch.float64, device=DEVICE).view(3, 4).t()
        net.missing.grad = None
        net.frozen.grad = None
        net.frozen.requires_grad_(False)
    used = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense().contiguous() for p in net.parameters()]
    opt.step()
    return max((p - (x - 0.5 * g)).abs().max().item() for p, x, g in zip(net.parameters(), before, used))


def retained(world):
    """A graph over a step is of no use, as after any change in place."""
    net = make_net()
    net[2].weight.requires_grad_(False)  # torch's optimizer does not touch it
    opt = kith.optim.SGD(net.parameters(), lr=0.1)
    model = wrap(net, opt)
    loss = loss_of(model, world.rank, 0)
    loss.backward(retain_graph=True)
    opt.step()
    try:
        loss.backward()
    except RuntimeError as error:
        return str(error)


def edited(world):
    net = make_net()
    opt = kith.optim.SGD(net.parameters(), lr=0.0)
    model = wrap(net, opt, topology="complete")
    with torch.no_grad():
        net[0].bias.fill_(1.0)
    loss_of(model, world.rank, 0).backward()
    try:
        opt.step()
        refused = ""
    except kith.InputError as error:
        refused = str(error)
    with model.edit():
        with torch.no_grad():
            net[0].bias.fill_(float(world.rank))
    opt.step()
    return refused, net[0].bias.detach().cpu()


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.full((3,), float(i), dtype=torch.float64)


def loader_processes(world):
    """A DataLoader forks processes that know of the world and have no part in it."""
    net = make_net()
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    model = wrap(net, opt, topology="complete")
    for _ in range(2):
        for x in torch.utils.data.DataLoader(Squares(), 2, num_workers=1):
            opt.zero_grad(set_to_none=True)
            model(x.to(DEVICE)).sum().backward()
            opt.step()
    return model.steps, model.report().lost


def compiled(world, compiles, fused):
    net = make_net()
    if compiles:
        net = torch.compile(net, backend="aot_eager")
    opt = (kith.optim.AdamW if fused else torch.optim.AdamW)(net.parameters(), lr=0.01)
    model = wrap(net, opt, topology="exp")
    for t in range(6):
        opt.zero_grad(set_to_none=True)
        loss_of(model, world.rank, t).backward()
        opt.step()
    return vector(net)


class Habits(unittest.TestCase):
    @unittest.skipUnless(hasattr(torch, "compile"), "this torch has no torch.compile")
    def test_compiled_modules_step_as_others(self):
        for fused in (False, True):
            for a, b in zip(run_workers(2, compiled, True, fused), run_workers(2, compiled, False, fused)):
                self.assertLess((a - b).abs().max().item(), 1e-12)

    def test_schedulers_closures_and_groups(self):
        for start, end, rates, losses in run_workers(2, habits):
            self.assertEqual(rates, [[0.1, 0.01], [0.05, 0.005], [0.025, 0.0025]])
            self.assertGreater(losses[0], losses[2])
            self.assertTrue(torch.equal(start[-2:], end[-2:]), "frozen")
            self.assertFalse(torch.equal(start[:-2], end[:-2]))

    def test_what_has_no_gradient_is_only_averaged(self):
        for other in run_workers(2, one_frozen):
            self.assertTrue(torch.equal(other, torch.full((2,), 0.5)))

    def test_gradients_of_any_layout(self):
        for fused in (False, True):
            for odd in (False, True):
                self.assertEqual(run_alone(odd_gradients, fused, odd), 0.0)

    def test_a_graph_over_a_step_is_refused(self):
        self.assertIn("modified by an inplace operation", run_alone(retained))

    def test_processes_of_a_loader_leave_the_world_alone(self):
        self.assertEqual(run_workers(2, loader_processes), [(6, []), (6, [])])

    def test_edits(self):
        for refused, bias in run_workers(2, edited):
            self.assertIn("parameter 0.bias: was changed since the last step", refused)
            self.assertTrue(torch.equal(bias, torch.full((4,), 0.5, dtype=torch.float64)))


if __name__ == "__main__":
    main()
