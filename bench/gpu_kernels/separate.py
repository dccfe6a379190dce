"""Mix with one neighbour, accumulated AdamW and publish as separate PyTorch operations on GPT-2 small's parameters.

Prints the median over periods of the milliseconds per step, averaged over a period of 4 steps (the last commits the
moments). Each line of step() is one pass over all parameters, by PyTorch's multi-tensor operations.
"""
import statistics

import torch

COMMIT_EVERY, LR, DECAY, B1, B2, EPS = 4, 1e-3, 0.1, 0.9, 0.999, 1e-8


def shapes():
    width = 768
    yield from [(50257, width), (1024, width)]
    for _ in range(12):
        yield from [(width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,),
                    (width,), (width,), (width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    yield from [(width,), (width,)]


def main():
    torch.manual_seed(1)
    draw = lambda: [torch.randn(shape, device="cuda") for shape in shapes()]
    x, peer, g, m, v, a, slot = (draw() for _ in range(7))
    for t in v:
        t.abs_()
    matrices = [t for t in x if t.dim() == 2]

    def step(k):
        updates = -(-k // COMMIT_EVERY)
        bias1, bias2 = 1 - B1 ** updates, 1 - B2 ** updates
        torch._foreach_mul_(x, 0.5)
        torch._foreach_add_(x, peer, alpha=0.5)
        torch._foreach_mul_(matrices, 1 - LR * DECAY)
        torch._foreach_add_(a, g, alpha=1 / COMMIT_EVERY)
        now_m = torch._foreach_mul(m, B1)
        torch._foreach_add_(now_m, g, alpha=1 - B1)
        now_v = torch._foreach_mul(v, B2)
        torch._foreach_addcmul_(now_v, g, g, 1 - B2)
        torch._foreach_sqrt_(now_v)
        torch._foreach_mul_(now_v, bias2 ** -0.5)
        torch._foreach_add_(now_v, EPS)
        torch._foreach_addcdiv_(x, now_m, now_v, -LR / bias1)
        torch._foreach_copy_(slot, x)
        if k % COMMIT_EVERY == 0:
            torch._foreach_mul_(m, B1)
            torch._foreach_add_(m, a, alpha=1 - B1)
            torch._foreach_mul_(v, B2)
            torch._foreach_addcmul_(v, a, a, 1 - B2)
            torch._foreach_zero_(a)

    times = []
    for period in range(25):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for k in range(1, COMMIT_EVERY + 1):
            step(period * COMMIT_EVERY + k)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / COMMIT_EVERY)
    print(f"{statistics.median(times[5:]):.4f}")


main()
