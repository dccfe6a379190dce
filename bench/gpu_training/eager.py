"""The GPT of job.h as an eager PyTorch program: takes orders on standard input, answers on standard output.

    run UNTIMED TIMED   -> "done SECONDS LOSS"      the seconds are of the timed steps, the loss is the last one's

bf16 autocast, scaled-dot-product attention, fused AdamW, no biases. compiled.py is the same through torch.compile. Arguments: RANK WORKERS FOLDER and the words of job.h; the first
three are for programs of several workers.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LR, SEED = 5e-5, 7


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    length = q.size(-2)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return (q @ k.transpose(-2, -1) * q.size(-1) ** -0.5).masked_fill(future, float("-inf")).softmax(-1) @ v


class Norm(nn.Module):  # nn.LayerNorm without a bias is there from PyTorch 2.1 on
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = Norm(width), Norm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.widen, self.narrow = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        return self.out(attend(q, k, v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(F.gelu(self.widen(self.mlp_norm(x))))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.table, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = Norm(width)
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() >= 2:
                    parameter.normal_(0, 0.02)
            for block in self.blocks:
                for writer in (block.out, block.narrow):
                    writer.weight.mul_((2 * layers) ** -0.5)

    def forward(self, tokens):
        x = self.table(tokens) + self.positions.weight[:tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.table.weight).flatten(0, 1)


def draw_tokens(count, vocabulary):
    u = ((torch.arange(count) * 1103515245 + 12345) % 2**31).double() / 2**31
    return (u * u * u * vocabulary).floor().long()


def serve(model, device, x, y, made=lambda loss_of: loss_of):
    """Trains the model on one batch, as it is ordered to."""
    torch.set_num_threads(1)
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01, **fused)

    @made
    def loss_of(x, y):
        with torch.autocast(device, dtype=torch.bfloat16):
            return F.cross_entropy(model(x), y)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    for line in sys.stdin:
        order, *numbers = line.split()
        if order == "parameters":
            print(f"parameters {sum(p.numel() for p in model.parameters())}", flush=True)
            continue
        untimed, timed = map(int, numbers)
        for _ in range(untimed):
            step()
        wait()
        start = time.monotonic()
        for _ in range(timed):
            loss = step()
        wait()
        print(f"done {time.monotonic() - start:.9f} {loss.item():.9f}", flush=True)


def main(made=lambda loss_of: loss_of):
    device = sys.argv[5]
    layers, width, batch, heads, context, vocabulary = map(int, sys.argv[6:12])
    torch.manual_seed(SEED)
    model = Gpt(layers, heads, width, context, vocabulary).to(device)
    tokens = draw_tokens(batch * context + 1, vocabulary).to(device)
    serve(model, device, tokens[:-1].view(batch, context), tokens[1:].contiguous(), made)


if __name__ == "__main__":
    main()
