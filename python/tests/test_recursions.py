"""Four workers with torch's optimizers, wrapped: every algorithm and topology against plain loops."""

import unittest

import torch

import kith
import plain
from support import MIXING, loss_of, main, make_net, run_alone, run_workers, vector

STEPS = 20
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}
CASES = [(a, t, o) for a in ("awc", "atc", "allreduce", "none") for t in MIXING for o in ("SGD", "AdamW")]
CASES.append(("awc", "exp", "RMSprop"))


def steps_of_kith(world):
    """Every case in turn: several models of one process."""
    models = []
    for algorithm, topology, optimizer in CASES:
        net = make_net()
        opt = OPTIMIZERS[optimizer](net.parameters())
        nodes, _ = MIXING[topology]
        model = kith.DecentralizedDataParallel(
            net, opt, topology=topology, nodes=nodes, algorithm=algorithm, stagger=False, bucket_bytes=100
        )
        addresses = [p.data_ptr() for p in net.parameters()]
        for t in range(STEPS):
            opt.zero_grad(set_to_none=True)
            loss_of(model, world.rank, t).backward()
            opt.step()
        assert addresses == [p.data_ptr() for p in net.parameters()], "parameters keep their addresses"
        assert model.steps == STEPS and model.report().step == STEPS - 1
        models.append(vector(net))
        model.barrier()
        model.close()
    return models


def steps_of_loops(_):
    found = []
    for algorithm, topology, optimizer in CASES:
        make = lambda count: plain.Rule(count, OPTIMIZERS[optimizer])
        found.append(plain.train(algorithm, make, MIXING[topology][1], STEPS))
    return found


class Recursions(unittest.TestCase):
    def test_wrapped_optimizers_follow_the_plain_loops(self):
        workers = run_workers(4, steps_of_kith)
        expected = run_alone(steps_of_loops)
        for k, case in enumerate(CASES):
            for rank in range(4):
                with self.subTest(case=case, rank=rank):
                    difference = (workers[rank][k] - expected[k][rank]).abs().max().item()
                    self.assertLess(difference, 1e-10)

    def test_the_loops_tell_the_cases_apart(self):
        found = run_alone(steps_of_loops)
        mean = {case: sum(found[k]) / 4 for k, case in enumerate(CASES)}
        for optimizer in ("SGD", "AdamW"):
            apart = [mean[a, "exp", optimizer] for a in ("awc", "atc", "allreduce", "none")]
            for i, a in enumerate(apart):
                for b in apart[i + 1 :]:
                    self.assertGreater((a - b).abs().max().item(), 1e-6)


def rounded_wire(world):
    """float32 parameters with a wire of 16 bits."""
    net = make_net(torch.float32)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    model = kith.DecentralizedDataParallel(net, opt, topology="complete", wire="bf16")
    for t in range(STEPS):
        opt.zero_grad(set_to_none=True)
        loss_of(model, world.rank, t, torch.float32).backward()
        opt.step()
    full = sum(p.numel() for p in net.parameters()) * 4
    return vector(net), model.report().bytes_published, full, model.consensus_distance()


class RoundedWire(unittest.TestCase):
    def test_sends_half_and_stays_near_the_loops(self):
        workers = run_workers(4, rounded_wire)
        make = lambda count: plain.Rule(count, lambda p: torch.optim.SGD(p, lr=0.05))
        expected = run_alone(lambda _: plain.train("awc", make, MIXING["complete"][1], STEPS))
        for rank, (found, published, full, distance) in enumerate(workers):
            self.assertLess(published, 0.8 * full + 256)  # padding
            self.assertLess((found - expected[rank]).abs().max().item(), 0.02)
            self.assertGreater((found - expected[rank]).abs().max().item(), 1e-7)
            self.assertGreater(distance, 0.0)


def nodes_as_models(world):
    """Two nodes of two: gradients inside, models between."""
    found = []
    for make in (OPTIMIZERS["AdamW"], lambda p: kith.optim.SGD(p, lr=0.05, momentum=0.9)):
        net = make_net()
        opt = make(net.parameters())
        model = kith.DecentralizedDataParallel(net, opt, topology="complete", nodes="2x2", inside="allreduce", stagger=False)
        for t in range(STEPS):
            opt.zero_grad(set_to_none=True)
            loss_of(model, world.rank, t).backward()
            opt.step()
        found.append(vector(net))
    return found


def loops_over_nodes(_):
    found = []
    for make in (OPTIMIZERS["AdamW"], lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)):
        models = [vector(make_net()) for _ in range(2)]
        rules = [plain.Rule(len(models[0]), make) for _ in range(2)]
        for t in range(STEPS):
            gradients = plain.gradients_at([models[0], models[0], models[1], models[1]], t)
            means = [(gradients[0] + gradients[1]) / 2, (gradients[2] + gradients[3]) / 2]
            moves = [rule.step(x, g) - x for rule, x, g in zip(rules, models, means)]
            models = [(models[0] + models[1]) / 2 + move for move in moves]
        found.append(models)
    return found


class Inside(unittest.TestCase):
    def test_nodes_that_are_models_follow_the_plain_loops(self):
        workers, expected = run_workers(4, nodes_as_models), run_alone(loops_over_nodes)
        for k in range(2):
            self.assertTrue(torch.equal(workers[0][k], workers[1][k]), "one model")
            self.assertTrue(torch.equal(workers[2][k], workers[3][k]))
            for rank in range(4):
                self.assertLess((workers[rank][k] - expected[k][rank // 2]).abs().max().item(), 1e-10)


if __name__ == "__main__":
    main()
