"""A script of PyTorch's DDP, as people have it. test_ddp.py changes three lines of it and expects the same losses."""

import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

device = torch.device(sys.argv[1])
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

torch.set_num_threads(1)
torch.manual_seed(7)
x = torch.randn(96, 8)
data = TensorDataset(x, torch.stack([x.sin().sum(1), x.prod(1)], 1))
sampler = DistributedSampler(data, num_replicas=size, rank=rank, seed=3)
loader = DataLoader(data, batch_size=8, sampler=sampler)

torch.manual_seed(rank)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 2)).to(device)
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
model = torch.nn.parallel.DistributedDataParallel(net, broadcast_buffers=False)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 30)
for epoch in range(5):
    sampler.set_epoch(epoch)
    for step, (inputs, targets) in enumerate(loader):
        inputs, targets = inputs.to(device), targets.to(device)
        opt.zero_grad(set_to_none=True)
        if step % 3 == 1:  # a batch in two halves
            with model.no_sync():
                (torch.nn.functional.mse_loss(model(inputs[:4]), targets[:4]) / 2).backward()
            (torch.nn.functional.mse_loss(model(inputs[4:]), targets[4:]) / 2).backward()
        else:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        scheduler.step()
        print("loss", rank, epoch, step, f"{loss.item():.9f}", flush=True)
