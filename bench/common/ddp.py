"""One worker of PyTorch's DistributedDataParallel over Gloo: takes orders on standard input, answers on standard output.

    run UNTIMED TIMED     -> "done SECONDS LOSS"    the seconds are of the timed steps, the loss is the last one's
    fp16 UNTIMED TIMED    -> the same for a model whose gradients travel in 16 bits (fp16_compress_hook)
    powersgd UNTIMED TIMED   -> the same for one whose gradients travel as matrices of rank 4 (PowerSGD)
    alone UNTIMED TIMED   -> the same for a model of its own that nobody averages with

The problem is that of problem.h. Arguments: RANK WORKERS FOLDER INPUTS HIDDEN HIDDEN_LAYERS BATCH.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

OUTPUTS, LR, POWERSGD_RANK, ONE_BUCKET_MB = 10, 1e-4, 4, 1000


def build(inputs, hidden, hidden_layers):
    layers, width = [], inputs
    for _ in range(hidden_layers):
        layers += [nn.Linear(width, hidden), nn.ReLU()]
        width = hidden
    layers.append(nn.Linear(width, OUTPUTS))
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for index, layer in enumerate(m for m in model if isinstance(m, nn.Linear)):
            k = torch.arange(layer.weight.numel(), dtype=torch.float64)
            layer.weight.copy_((0.03 * torch.sin(0.37 * k + index)).view_as(layer.weight))
            layer.bias.zero_()
    return model


def distributed(model, name):
    """PowerSGD's hook starts its second all-reduce when the first has ended, in whatever order of buckets that happens on a worker, and Gloo
    pairs messages by their order: with several buckets it aborts. So it gets one."""
    if name == "powersgd":
        usual, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, ONE_BUCKET_MB << 20
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=ONE_BUCKET_MB)
        dist._DEFAULT_FIRST_BUCKET_BYTES = usual
        # It starts to compress in its third step at the earliest.
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=POWERSGD_RANK, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return model
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if name == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


def main():
    rank, workers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    inputs, hidden, hidden_layers, batch = map(int, sys.argv[4:8])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=workers,
                            timeout=datetime.timedelta(seconds=120))
    models, optimizers = {}, {}
    x = torch.cos(0.11 * torch.arange(batch * inputs, dtype=torch.float64) + 3 * rank).float().view(batch, inputs)
    y = torch.arange(batch) % OUTPUTS

    def make(name):  # all workers get the same orders
        model = build(inputs, hidden, hidden_layers)
        models[name] = model if name == "alone" else distributed(model, name)
        optimizers[name] = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)

    def step(name):
        optimizers[name].zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(models[name](x), y)
        loss.backward()
        optimizers[name].step()
        return loss.item()

    make("run")
    print("ready", flush=True)
    for line in sys.stdin:
        name, untimed, timed = line.split()
        if name not in models:
            make(name)
        dist.barrier()
        for _ in range(int(untimed)):
            step(name)
        start = time.monotonic()
        for _ in range(int(timed)):
            loss = step(name)
        print(f"done {time.monotonic() - start:.9f} {loss:.9f}", flush=True)


main()
