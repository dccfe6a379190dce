"""What the Python front costs on a GPU: a compiled GPT-2 by itself and wrapped by kith, in turns, in the same processes.

    PYTHONPATH=build/cuda/python python3 bench/python_gpu/python_gpu.py           # four workers on one GPU; about two minutes
    PYTHONPATH=build/release/python python3 bench/python_gpu/python_gpu.py --device cpu    # a tiny one: shows that it works

Every worker has one network per contestant, all from the same start, and a batch of its own:
    local        torch.optim.AdamW (fused), no kith
    kith.optim   kith.optim.AdamW
    wrapped      torch.optim.AdamW (fused), wrapped
    wrapped-use  the same with non_finite="use"
A block is timed from a barrier until the slowest worker's device has done all of it. A ratio is of blocks of the same round. Goals are
given only where the results are right: losses begin alike, are finite and fall, and workers that mix are less than half as far from
each other as those that do not. Exit code 1 otherwise.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

GOAL = 0.97  # of local's tokens per second
SEED, LR, DECAY = 7, 5e-5, 0.01
SAMPLE = 997  # every such element of a model is looked at for distances
CONTESTANTS = ("local", "kith.optim", "wrapped", "wrapped-use")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5
            mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(F.gelu(self.widen(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Gives the loss, so that it is compiled too."""

    def __init__(self, layers, heads, width, context, vocabulary):
        super().__init__()
        self.table, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02)
            if name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.positions.weight[: tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.table.weight).flatten(0, 1), targets.flatten())


class Contestant:
    """One network and how it steps."""

    def __init__(self, name, job, device):
        torch.manual_seed(SEED)
        self.name, self.device = name, device
        net = Gpt(job["layers"], job["heads"], job["width"], job["context"], job["vocabulary"]).to(device)
        self.parameters = list(net.parameters())
        if device.type == "cuda":
            net = torch.compile(net)
        fused = {"fused": True} if device.type == "cuda" else {}
        if name == "kith.optim":
            self.opt = kith.optim.AdamW(net.parameters(), lr=LR, weight_decay=DECAY)
        else:
            self.opt = torch.optim.AdamW(net.parameters(), lr=LR, betas=(0.9, 0.95), weight_decay=DECAY, **fused)
        use = {"non_finite": "use"} if name == "wrapped-use" else {}
        self.model = net
        if name != "local":
            self.model = kith.DecentralizedDataParallel(net, self.opt, name=name, topology="aer", wire=job["wire"], **use)
        self.losses = []

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        bf16 = torch.autocast("cuda", dtype=torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()
        with bf16:
            loss = self.model(x, y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def block(self, steps, x, y):
        """Seconds; the device has done everything when it returns."""
        start = time.monotonic()
        for _ in range(steps):
            loss = self.step(x, y)
        self.wait()
        taken = time.monotonic() - start
        self.losses.append(loss.item())
        return taken

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def sample(self):
        return torch.cat([p.detach().reshape(-1)[::SAMPLE].cpu() for p in self.parameters])


def work(job, folder):
    """One worker. Worker 0 prints the seconds of every block, of its slowest worker."""
    world = kith.init(device=job["device"])
    device = world.device
    torch.set_num_threads(1)
    count = job["batch"] * job["context"] + 1
    u = ((torch.arange(count) + 100003 * world.rank) * 1103515245 + 12345) % 2**31
    tokens = ((u.double() / 2**31) ** 3 * job["vocabulary"]).floor().long().to(device)
    x, y = tokens[:-1].view(job["batch"], -1), tokens[1:].reshape(job["batch"], -1)

    contestants = [Contestant(name, job, device) for name in job["contestants"]]
    meeting = next(c.model for c in contestants if c.name != "local")
    if world.rank == 0:  # it compiles; the others find what it made
        contestants[0].block(1, x, y)
    meeting.barrier()
    if world.rank != 0:
        contestants[0].block(1, x, y)
    for contestant in contestants[1:]:
        contestant.block(1, x, y)
    for contestant in contestants:
        contestant.block(3, x, y)
    seconds = {c.name: [] for c in contestants}
    for round_ in range(job["blocks"]):
        for i in range(len(contestants)):
            contestant = contestants[(i + round_) % len(contestants)]
            meeting.barrier()
            taken = max(meeting.gather(contestant.block(job["steps"], x, y)))
            seconds[contestant.name].append(taken)
    result = {
        "seconds": seconds,
        "losses": {c.name: c.losses for c in contestants},
        "waited": {c.name: c.model.report().waited for c in contestants if c.name != "local"},
        "parameters": sum(p.numel() for p in contestants[0].parameters),
    }
    torch.save({c.name: c.sample() for c in contestants}, os.path.join(folder, f"sample{world.rank}"))
    meeting.barrier()
    if world.rank == 0:
        with open(os.path.join(folder, "result.json"), "w") as file:
            json.dump(result, file)
    if job["profile"] and world.rank == 0:
        profile(contestants, job, x, y)
    elif job["profile"]:
        for contestant in contestants:
            for _ in range(3):
                contestant.step(x, y)
    meeting.barrier()


def profile(contestants, job, x, y):
    """Where a step's time goes, on worker 0, to standard error."""
    for contestant in contestants:
        contestant.wait()
        with torch.profiler.profile() as seen:
            for _ in range(3):
                contestant.step(x, y)
            contestant.wait()
        print(contestant.name, seen.key_averages().table(sort_by=job["profile"], row_limit=25), file=sys.stderr)


def run_workers(job, folder, limit):
    """Starts them and waits; nobody is left when it returns."""
    processes = []
    for worker in range(job["workers"]):
        environment = dict(os.environ, KITH_WORKER=str(worker), KITH_WORKERS=str(job["workers"]), KITH_LOCAL_RANK=str(worker),
                           KITH_LOCAL_WORKERS=str(job["workers"]), KITH_STORE=os.path.join(folder, "store"))
        command = [sys.executable, os.path.abspath(__file__), "--job", json.dumps(job), "--folder", folder]
        processes.append(subprocess.Popen(command, env=environment))
    deadline = time.monotonic() + limit
    codes = []
    for process in processes:
        try:
            codes.append(process.wait(max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            codes.append("timed out")
    return codes


def check(result, distances):
    """What is wrong."""
    faults = []
    first = result["losses"]["local"][0]
    for name, losses in result["losses"].items():
        if not all(math.isfinite(loss) for loss in losses):
            faults.append(f"{name}: a loss is not finite")
        if abs(losses[0] - first) > 0.01 * first:
            faults.append(f"{name}: begins with a loss of {losses[0]}, local with {first}")
        if not losses[-1] < losses[0]:
            faults.append(f"{name}: the loss does not fall ({losses[0]} to {losses[-1]})")
        if name != "local" and not 0 < distances[name] < 0.5 * distances["local"]:
            faults.append(f"{name}: workers are {distances[name]} apart, local ones {distances['local']}")
    return faults


def distances_of(folder, workers, names):
    """Root of the mean squared distance to the mean, of the elements that were looked at."""
    samples = [torch.load(os.path.join(folder, f"sample{w}")) for w in range(workers)]
    found = {}
    for name in names:
        models = torch.stack([sample[name] for sample in samples]).double()
        found[name] = float((models - models.mean(0)).square().sum(1).mean().sqrt())
    return found


def report(job, result, distances):
    print(f"{job['workers']} workers on one {job['device']}, aer, {job['wire']} on the wire, GPT of {result['parameters']} parameters, batch {job['batch']} of "
          f"{job['context']} tokens, {job['blocks']} blocks of {job['steps']} iterations, PyTorch {torch.__version__}")
    print("                 ms an iteration [least, most]     tokens/s   to local [least, most]   waited ms   apart    loss")
    tokens = job["workers"] * job["batch"] * job["context"]
    ratios = {}
    for name, seconds in result["seconds"].items():
        ms = sorted(1e3 * s / job["steps"] for s in seconds)
        ratio = [local / own for local, own in zip(result["seconds"]["local"], seconds)]
        ratios[name] = statistics.median(ratio)
        losses = result["losses"][name]
        print(f"  {name:12} {statistics.median(ms):10.2f} [{ms[0]:8.2f}, {ms[-1]:8.2f}] {1e3 * tokens / statistics.median(ms):12.0f}"
              f"   {ratios[name]:8.3f} [{min(ratio):.3f}, {max(ratio):.3f}]   {1e3 * result['waited'].get(name, 0):9.2f}"
              f" {distances[name]:7.4f}   {losses[0]:.4f} to {losses[-1]:.4f}")
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--steps", type=int, default=6, help="iterations of a block")
    parser.add_argument("--wire", default="bf16", help="what neighbours read (default bf16, as in the example of docs/python.md)")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--profile", default="", metavar="COLUMN", help="show where worker 0's time goes, by self_cuda_time_total for example")
    parser.add_argument("--limit", type=float, default=400, help="seconds for everything")
    args = parser.parse_args()
    shape = {"layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50257, "batch": 8}
    if args.device == "cpu":
        shape = {"layers": 2, "heads": 2, "width": 32, "context": 32, "vocabulary": 97, "batch": 2}
    job = dict(shape, device=args.device, workers=args.workers, blocks=args.blocks, steps=args.steps, wire=args.wire, profile=args.profile,
               contestants=args.contestants.split(","))
    with tempfile.TemporaryDirectory(prefix="kith-bench-") as folder:
        codes = run_workers(job, folder, args.limit)
        if any(code != 0 for code in codes):
            sys.exit(f"workers ended with {codes}")
        with open(os.path.join(folder, "result.json")) as file:
            result = json.load(file)
        distances = distances_of(folder, args.workers, job["contestants"])
    ratios = report(job, result, distances)
    faults = check(result, distances)
    if faults:
        sys.exit("wrong results: " + "; ".join(faults))
    for name in ("kith.optim", "wrapped"):
        if name in ratios and args.device == "cuda":
            words = "met" if ratios[name] >= GOAL else "missed"
            print(f"goal python_gpu.{name.replace('.', '_')}_to_local {ratios[name]:.4f} {GOAL} {words}")


if __name__ == "__main__":
    import kith

    if "--job" in sys.argv:
        inner = argparse.ArgumentParser()
        inner.add_argument("--job", type=json.loads)
        inner.add_argument("--folder")
        given = inner.parse_args()
        work(given.job, given.folder)
    else:
        main()
