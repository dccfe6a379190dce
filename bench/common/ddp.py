"""One worker of PyTorch's DistributedDataParallel over Gloo: takes orders on standard input, answers on standard output.

    run UNTIMED TIMED     -> "done SECONDS LOSS"    the seconds are of the timed steps, the loss is the last one's
    alone UNTIMED TIMED   -> the same for a model of its own that nobody averages with

The problem is that of problem.h. Arguments: RANK WORKERS FOLDER INPUTS HIDDEN HIDDEN_LAYERS BATCH.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

OUTPUTS, LR = 10, 1e-4


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


def main():
    rank, workers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    inputs, hidden, hidden_layers, batch = map(int, sys.argv[4:8])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=workers,
                            timeout=datetime.timedelta(seconds=120))
    models = {"run": nn.parallel.DistributedDataParallel(build(inputs, hidden, hidden_layers), gradient_as_bucket_view=True),
              "alone": build(inputs, hidden, hidden_layers)}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01) for name, model in models.items()}
    x = torch.cos(0.11 * torch.arange(batch * inputs, dtype=torch.float64) + 3 * rank).float().view(batch, inputs)
    y = torch.arange(batch) % OUTPUTS

    def step(name):
        optimizers[name].zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(models[name](x), y)
        loss.backward()
        optimizers[name].step()
        return loss.item()

    print("ready", flush=True)
    for line in sys.stdin:
        name, untimed, timed = line.split()
        dist.barrier()
        for _ in range(int(untimed)):
            step(name)
        start = time.monotonic()
        for _ in range(int(timed)):
            loss = step(name)
        print(f"done {time.monotonic() - start:.9f} {loss:.9f}", flush=True)


main()
