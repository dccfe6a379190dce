"""A byte-level GPT on the text that comes with kith: every worker reads parts of its own.

    kith launch --workers 4 -- python3 examples/python/gpt.py
    torchrun --nproc_per_node 4 examples/python/gpt.py --algorithm allreduce

It ends with the loss of the mean model on text that nobody has trained on, and leaves that model in mean.pt.
"""

import argparse
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

import kith

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "share", "text", "austen.txt")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2) for part in self.attention(self.norm1(x)).split(width, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(shape[3])
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        self.head.weight = self.bytes.weight  # tied: averaged once
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.bytes(x) + self.places(places))))


def batch(text, size, context, generator, device):
    starts = torch.randint(len(text) - context - 1, (size,), generator=generator)
    pieces = torch.stack([text[s : s + context + 1] for s in starts]).long().to(device)
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8, help="sequences per worker and step")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--topology", default="aer")
    parser.add_argument("--algorithm", default="awc")
    parser.add_argument("--wire", default="bf16")
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", default="mean.pt")
    args = parser.parse_args()

    world = kith.init(device=args.device)
    with open(TEXT, "rb") as file:
        text = torch.tensor(list(file.read()), dtype=torch.uint8)
    train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]

    net = GPT(args.width, args.layers, 4, args.context).to(world.device)
    opt = kith.optim.AdamW(net.parameters(), lr=args.lr)
    model = kith.DecentralizedDataParallel(net, opt, topology=args.topology, algorithm=args.algorithm, wire=args.wire)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    generator = torch.Generator().manual_seed(world.rank)
    for step in range(args.steps):
        opt.zero_grad(set_to_none=True)
        loss = loss_of(model, *batch(train, args.batch, args.context, generator, world.device))
        loss.backward()
        model.clip_grad_norm(1.0)
        opt.step()
        scheduler.step()
        if world.rank == 0 and (step % 50 == 0 or step == args.steps - 1):
            print(f"step {step}: loss {loss.item():.3f}, waited {1e3 * model.report().waited:.1f} ms", flush=True)

    distance = model.consensus_distance()
    with model.average(), torch.no_grad():
        if world.rank == 0:
            generator.manual_seed(0)
            losses = [loss_of(net, *batch(held_out, 32, args.context, generator, world.device)) for _ in range(8)]
            print(f"held-out loss of the mean model: {torch.stack(losses).mean().item():.3f} (consensus distance {distance:.3f})")
            torch.save(net.state_dict(), args.out)


if __name__ == "__main__":
    main()
