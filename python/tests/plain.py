"""The decentralised recursions in plain loops, to hold kith against. Knows nothing of kith.

x_i(0) is the same for all. A rule makes y_i of x_i in place from worker i's gradient at x_i.
"""

import torch

from support import gradient_vector, loss_of, make_net, set_vector, vector


def mix(w, models):
    return [sum(w[i, j] * models[j] for j in range(len(models))) for i in range(len(models))]


def gradients_at(models, step, norm=None):
    """Everybody's gradient at its own model; clipped one by one where a norm is given."""
    net, found = make_net(), []
    for rank, x in enumerate(models):
        set_vector(net, x)
        net.zero_grad(set_to_none=True)
        loss_of(net, rank, step).backward()
        found.append(gradient_vector(net))
        if norm is not None:
            found[-1] = found[-1] * min(1.0, norm / (found[-1].norm().item() + 1e-6))
    return found


class Rule:
    """Torch's own optimizer on a vector."""

    def __init__(self, count, make):
        self.x = torch.nn.Parameter(torch.zeros(count, dtype=torch.float64))
        self.optimizer = make([self.x])

    def step(self, x, gradient):
        with torch.no_grad():
            self.x.copy_(x)
        self.x.grad = gradient.clone()
        self.optimizer.step()
        return self.x.detach().clone()


class AccumAdam:
    """arXiv 2410.11998: at every K-th step the moments take up the mean of the last K gradients. Without decay."""

    def __init__(self, count, lr, betas, eps, every):
        self.m, self.v, self.mean = (torch.zeros(count, dtype=torch.float64) for _ in range(3))
        self.lr, self.betas, self.eps, self.every, self.k = lr, betas, eps, every, 0

    def step(self, x, gradient):
        beta1, beta2 = self.betas
        self.k += 1
        commits = -(-self.k // self.every)
        self.mean = self.mean + gradient / self.every
        m = beta1 * self.m + (1 - beta1) * gradient
        v = beta2 * self.v + (1 - beta2) * gradient**2
        direction = m / (1 - beta1**commits) / ((v / (1 - beta2**commits)).sqrt() + self.eps)
        if self.k % self.every == 0:
            self.m = beta1 * self.m + (1 - beta1) * self.mean
            self.v = beta2 * self.v + (1 - beta2) * self.mean**2
            self.mean = torch.zeros_like(self.mean)
        return x - self.lr * direction


def train(algorithm, make, mixing, steps, workers=4, decay=0.0, lr=0.0, norm=None, skipped=()):
    """Every worker's last model. `make(count)` is a rule on vectors. `decay`: shrinks the averaged model (awc) by lr * decay, as kith.optim does. `skipped`:
    (rank, step) of workers that mix but do not move."""
    start = vector(make_net())
    models = [start.clone() for _ in range(workers)]
    rules = [make(len(start)) for _ in range(workers)]
    mean = torch.full((workers, workers), 1.0 / workers, dtype=torch.float64)
    for t in range(steps):
        gradients = gradients_at(models, t, norm if algorithm != "allreduce" else None)
        if algorithm == "allreduce":
            gradients = mix(mean, gradients)
            if norm is not None:
                gradients = [g * min(1.0, norm / (g.norm().item() + 1e-6)) for g in gradients]
        stepped = [
            x if (rank, t) in skipped else rule.step(x, g)
            for rank, (rule, x, g) in enumerate(zip(rules, models, gradients))
        ]
        moves = [y - x for y, x in zip(stepped, models)]
        if algorithm == "awc":
            models = [m * (1 - lr * decay) + move for m, move in zip(mix(mixing(t), models), moves)]
        elif algorithm == "atc":
            models = mix(mixing(t), [x * (1 - lr * decay) + move for x, move in zip(models, moves)])
        else:
            models = [x * (1 - lr * decay) + move for x, move in zip(models, moves)]
    return models
