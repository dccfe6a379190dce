"""One worker of PyTorch's DistributedDataParallel over Gloo: takes orders on standard input, answers on standard output.

    run STEPS   -> "done SECONDS LOSS"

The problem is that of problem.h. Arguments: RANK WORKERS BATCH FOLDER.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

INPUTS, HIDDEN, HIDDEN_LAYERS, OUTPUTS, LR = 784, 1024, 3, 10, 1e-4


def build():
    layers, width = [], INPUTS
    for _ in range(HIDDEN_LAYERS):
        layers += [nn.Linear(width, HIDDEN), nn.ReLU()]
        width = HIDDEN
    layers.append(nn.Linear(width, OUTPUTS))
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for index, layer in enumerate(m for m in model if isinstance(m, nn.Linear)):
            k = torch.arange(layer.weight.numel(), dtype=torch.float64)
            layer.weight.copy_((0.03 * torch.sin(0.37 * k + index)).view_as(layer.weight))
            layer.bias.zero_()
    return model


def main():
    rank, workers, batch, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=workers,
                            timeout=datetime.timedelta(seconds=120))
    model = nn.parallel.DistributedDataParallel(build(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    x = torch.cos(0.11 * torch.arange(batch * INPUTS, dtype=torch.float64) + 3 * rank).float().view(batch, INPUTS)
    y = torch.arange(batch) % OUTPUTS
    print("ready", flush=True)
    for line in sys.stdin:
        steps = int(line.split()[1])
        dist.barrier()
        start = time.monotonic()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print(f"done {time.monotonic() - start:.9f} {loss.item():.9f}", flush=True)


main()
