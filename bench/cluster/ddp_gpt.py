"""One worker of PyTorch's DistributedDataParallel over Gloo that trains the byte-level GPT of `kith train` in the same way.

    ddp_gpt.py --run FOLDER --text FILE --hook none|fp16|powersgd|alone [--rank-of-powersgd R] [--set KEY=VALUE]...

The same architecture, initial numbers (torch's own generator, drawn in the same order), order of the data, AdamW, clipping, curve of
the rate and evaluation; settings have the names and defaults of `kith train`, as far as this model needs them. A launcher tells RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT. With the hook `alone` workers never average: what a step takes without others. It leaves FOLDER/worker-K/metrics.jsonl with the lines of `kith train`.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

DEFAULTS = {
    "world.workers": 4, "model.layers": 4, "model.heads": 4, "model.width": 256, "model.context": 64, "data.validation": 0.1,
    "train.steps": 300, "train.batch": 4, "train.clip": 1.0, "train.eval_every": 75, "train.eval_samples": 128, "train.seed": 1,
    "optimizer.weight_decay": 0.1, "optimizer.beta1": 0.9, "optimizer.beta2": 0.95, "optimizer.eps": 1e-8, "rate.lr": 1e-3,
    "rate.warmup": -1, "rate.final_fraction": 0.1,
}
VOCABULARY, DEVIATION, WARMUP_START, WORD, ONE_BUCKET_MB = 256, 0.02, 0.01, (1 << 64) - 1, 1000


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.query_key_value(x).chunk(3, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            weights = (q @ k.transpose(-2, -1)).mul(1 / math.sqrt(width // self.heads)).masked_fill(future, -math.inf)
            seen = weights.softmax(-1) @ v
        return self.out(seen.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(F.gelu(self.widen(self.mlp_norm(x))))


class Gpt(nn.Module):
    """kith/train/models/gpt.cc, layer by layer."""

    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() >= 2:
                    parameter.normal_(0, DEVIATION)
                if name.endswith("bias"):
                    parameter.zero_()
            for block in self.blocks:
                for writer in (block.attention.out, block.narrow):
                    writer.weight.mul_(1 / math.sqrt(2 * layers))

    def forward(self, tokens):
        x = self.table(tokens) + self.positions.weight[:tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.table.weight).flatten(0, 1)


def mix_bits(x):
    x = (x + 0x9e3779b97f4a7c15) & WORD
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & WORD
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & WORD
    return x ^ (x >> 31)


def hash_words(*words):
    h = 0x6b697468
    for word in words:
        h = mix_bits(h ^ word)
    return h


class Text:
    """The data of `kith train`: kith/train/data/text.cc and sampler.cc."""

    def __init__(self, file, settings):
        self.context = settings["model.context"]
        with open(file, "rb") as opened:
            self.bytes = torch.tensor(list(opened.read()), dtype=torch.long)
        self.cut = len(self.bytes) - int(len(self.bytes) * settings["data.validation"])
        self.samples = (self.cut - 1) // self.context - 1
        self.validation_samples = (len(self.bytes) - self.cut - 1) // self.context

    def batch(self, starts):
        cuts = torch.stack([self.bytes[s:s + self.context + 1] for s in starts])
        return cuts[:, :-1], cuts[:, 1:].flatten()

    def order(self, seed, epoch):
        order, state = list(range(self.samples)), hash_words(seed, epoch)
        for left in range(self.samples, 1, -1):
            other = (mix_bits(state) * left) >> 64
            state = (state + 1) & WORD
            order[left - 1], order[other] = order[other], order[left - 1]
        return order

    def training(self, seed, rank, workers, batch):
        epoch = 0
        while True:
            order, moved = self.order(seed, epoch), hash_words(epoch) % self.context
            for first in range(0, self.samples - batch * workers + 1, batch * workers):
                own = order[first + rank * batch:first + (rank + 1) * batch]
                yield self.batch([moved + sample * self.context for sample in own])
            epoch += 1

    def validation(self, wanted, rank, workers):
        count = min(wanted, self.validation_samples) if wanted else self.validation_samples
        own = [k * self.validation_samples // count for k in range(rank, count, workers)]
        for first in range(0, len(own), 16):
            yield self.batch([self.cut + sample * self.context for sample in own[first:first + 16]])


def rate(settings, step):
    total, warmup = settings["train.steps"], settings["rate.warmup"]
    if warmup < 0:
        warmup = total // 10
    if step < warmup:
        return settings["rate.lr"] * (WARMUP_START + (1 - WARMUP_START) * step / warmup)
    wave = 0.5 * (1 + math.cos(math.pi * min((step - warmup) / (total - warmup), 1)))
    return settings["rate.lr"] * (settings["rate.final_fraction"] + (1 - settings["rate.final_fraction"]) * wave)


def evaluate(model, text, settings, rank, workers):
    sums = torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        for tokens, target in text.validation(settings["train.eval_samples"], rank, workers):
            sums += torch.tensor([F.cross_entropy(model(tokens), target, reduction="sum").item(), target.numel()],
                                 dtype=torch.float64)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--hook", choices=["none", "fp16", "powersgd", "alone"], default="none")
    parser.add_argument("--rank-of-powersgd", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    settings = dict(DEFAULTS)
    for setting in options.set:
        key, _, value = setting.partition("=")
        if key not in settings:
            parser.error(f"--set: {key} is none of {', '.join(settings)}")
        settings[key] = type(settings[key])(float(value))
    return options, settings


def distributed(model, options):
    """PowerSGD's hook starts its second all-reduce when the first has ended, in whatever order of buckets that happens on a worker, and Gloo
    pairs messages by their order: with several buckets it aborts. So it gets one."""
    if options.hook == "powersgd":
        dist._DEFAULT_FIRST_BUCKET_BYTES = ONE_BUCKET_MB << 20
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=ONE_BUCKET_MB)
        state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=options.rank_of_powersgd,
                                            start_powerSGD_iter=10)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return model
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if options.hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


def main():
    options, settings = parse()
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    torch.manual_seed(settings["train.seed"])
    plain = Gpt(settings["model.layers"], settings["model.heads"], settings["model.width"], settings["model.context"])
    model = distributed(plain, options)
    groups = [{"params": [p for p in plain.parameters() if p.dim() >= 2], "weight_decay": settings["optimizer.weight_decay"]},
              {"params": [p for p in plain.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(settings["optimizer.beta1"], settings["optimizer.beta2"]),
                                  eps=settings["optimizer.eps"])
    text = Text(options.text, settings)
    batches = text.training(settings["train.seed"], rank, workers, settings["train.batch"])
    steps, every, total = settings["train.steps"], settings["train.eval_every"], 0.0
    os.makedirs(f"{options.run}/worker-{rank}", exist_ok=True)
    if rank == 0:
        print(f"gpt with {sum(p.numel() for p in plain.parameters())} parameters, {workers} workers, DDP, {options.hook}", flush=True)
    with open(f"{options.run}/worker-{rank}/metrics.jsonl", "w", encoding="ascii") as metrics:
        for step in range(steps):
            start = time.monotonic()
            tokens, target = next(batches)
            for group in optimizer.param_groups:
                group["lr"] = rate(settings, step)
            optimizer.zero_grad(set_to_none=True)
            with model.no_sync() if options.hook == "alone" else contextlib.nullcontext():
                loss = F.cross_entropy(model(tokens), target)
                loss.backward()
            nn.utils.clip_grad_norm_(plain.parameters(), settings["train.clip"])
            optimizer.step()
            loss = loss.item()
            seconds = time.monotonic() - start
            total += seconds
            metrics.write(json.dumps({"kind": "step", "step": step + 1, "loss": loss, "seconds": seconds}) + "\n")
            if step + 1 == steps or (every and (step + 1) % every == 0):
                loss = evaluate(plain, text, settings, rank, workers)
                metrics.write(json.dumps({"kind": "eval", "step": step + 1, "loss": loss, "seconds": total}) + "\n")
                if rank == 0:
                    print(f"step {step + 1}  validation loss {loss:.4f}  {total:.1f} s", flush=True)


if __name__ == "__main__":
    main()
