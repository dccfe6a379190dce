"""One worker of PyTorch's DistributedDataParallel over Gloo on the MLP of job.h; several may share a GPU.

    run UNTIMED TIMED   -> "done SECONDS LOSS"      the seconds are of the timed steps, the loss is the last one's

Arguments: RANK WORKERS FOLDER and the words of job.h.
"""
import datetime
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

LR, SEED = 5e-5, 7


def main():
    rank, workers, folder, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[5]
    count, width, batch = map(int, sys.argv[6:9])
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/ddp", rank=rank, world_size=workers,
                            timeout=datetime.timedelta(seconds=60))
    layers = []
    for _ in range(count):
        layers += [nn.Linear(width, width), nn.ReLU()]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers[:-1]).to(device), gradient_as_bucket_view=True)
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01, **fused)
    torch.manual_seed(SEED + 1 + rank)
    x, y = torch.randn(batch, width).to(device), torch.randn(batch, width).to(device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for line in sys.stdin:
        _, untimed, timed = line.split()
        for _ in range(int(untimed)):
            step()
        wait()
        dist.barrier()
        start = time.monotonic()
        for _ in range(int(timed)):
            loss = step()
        wait()
        print(f"done {time.monotonic() - start:.9f} {loss.item():.9f}", flush=True)


main()
