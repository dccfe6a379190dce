#!/usr/bin/env python3
"""Which second moment lets decentralised AdamW keep up with all-reduce? n workers of several runs, stacked on one GPU.

    lab/second_moment/simulate.py JOBS.json OUT.jsonl SECONDS

For ideas only: what counts is measured through kith itself. Needs PyTorch 2.x; README.md beside this says what came out. JOBS.json:

    {"n": 8, "bs": 8, "T": 128, "steps": 1500, "seeds": [1, 2, 3, 4], "spec": [256, 4, 4],
     "batches": [{"jobs": [{"m": "ar", "lr": 3e-3, "b2": 0.95}, {"m": "blk64", "lr": 3e-3}]}]}

spec is width, layers, heads of a byte-level GPT; bs sequences of T bytes per worker and step; jobs of a batch run at once. A job: "m" (the method, see update()),
"lr", "b1" (0.9), "b2" (0.98), "topo" (aer, exp, complete), "floor" (1), "atc" (mix after the step), "al" (how far gradients look ahead along the own update: 1 is awc),
"mm" (momenta averaged over all workers), "mc" (gain that pulls momenta to where mixing moves the model), "pr" (share of the last update that neighbours get beforehand),
"mid" (neighbours get where the first half of the batch leads).
The text is that of PyTorch's own Python files.
"""
import glob
import json
import math
import os
import sys
import time

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("high")
BLOCK = 64  # parameters are padded to multiples of 256, so a block belongs to one of them


class Model:
    """The parameters of a GPT in one flat vector, and its loss for a stack of such vectors."""

    def __init__(self, width, layers, heads, context):
        self.width, self.layers, self.heads, self.context = width, layers, heads, context
        self.items, self.size = [], 0
        self._add("embed", (256, width), 0.02, 1)
        self._add("place", (context, width), 0.02, 1)
        deep = 0.02 / math.sqrt(2 * layers)
        for layer in range(layers):
            for name, shape, std, decay in [
                    ("g1", (width,), "one", 0), ("b1", (width,), 0, 0), ("qkv", (3 * width, width), 0.02, 1), ("bq", (3 * width,), 0, 0),
                    ("o", (width, width), deep, 1), ("bo", (width,), 0, 0), ("g2", (width,), "one", 0), ("b2", (width,), 0, 0),
                    ("f", (4 * width, width), 0.02, 1), ("bf", (4 * width,), 0, 0), ("p", (width, 4 * width), deep, 1), ("bp", (width,), 0, 0)]:
                self._add(f"{layer}{name}", shape, std, decay)
        self._add("gf", (width,), "one", 0)
        self._add("bf", (width,), 0, 0)
        self.decay = torch.zeros(self.size)
        self.tensor_of = torch.zeros(self.size // BLOCK, dtype=torch.long)
        for k, (_, _, _, decay, first, count) in enumerate(self.items):
            self.decay[first:first + count] = decay
            self.tensor_of[first // BLOCK:(first + count + BLOCK - 1) // BLOCK] = k
        self.decay, self.tensor_of = self.decay.to(device), self.tensor_of.to(device)

    def _add(self, name, shape, std, decay):
        count = math.prod(shape)
        self.items.append((name, shape, std, decay, self.size, count))
        self.size += (count + 255) // 256 * 256

    def start(self, seed):
        generator = torch.Generator().manual_seed(seed)
        x = torch.zeros(self.size)
        for _, _, std, _, first, count in self.items:
            x[first:first + count] = 1 if std == "one" else torch.randn(count, generator=generator) * std
        return x.to(device)

    def parts(self, x):
        return {name: x[:, first:first + count].view(x.shape[0], *shape) for name, shape, _, _, first, count in self.items}


def norm(x, gain, bias):
    return F.layer_norm(x, x.shape[-1:]) * gain[:, None] + bias[:, None]


def loss_of(model, x, inputs, targets):
    """Of a stack: x [B, size], inputs [B, sequences, context] -> [B]."""
    p = model.parts(x)
    stack, sequences, context = inputs.shape
    width, heads = model.width, model.heads
    offset = (torch.arange(stack, device=inputs.device) * 256)[:, None, None]
    z = F.embedding(inputs + offset, p["embed"].reshape(stack * 256, width)) + p["place"][:, None, :context]
    z = z.reshape(stack, sequences * context, width)
    for l in range(model.layers):
        y = torch.baddbmm(p[f"{l}bq"][:, None], norm(z, p[f"{l}g1"], p[f"{l}b1"]), p[f"{l}qkv"].transpose(1, 2))
        q, k, v = y.view(stack * sequences, context, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(stack, sequences * context, width)
        z = z + torch.baddbmm(p[f"{l}bo"][:, None], a, p[f"{l}o"].transpose(1, 2))
        f = F.gelu(torch.baddbmm(p[f"{l}bf"][:, None], norm(z, p[f"{l}g2"], p[f"{l}b2"]), p[f"{l}f"].transpose(1, 2)), approximate="tanh")
        z = z + torch.baddbmm(p[f"{l}bp"][:, None], f, p[f"{l}p"].transpose(1, 2))
    logits = torch.bmm(norm(z, p["gf"], p["bf"]), p["embed"].transpose(1, 2))
    return F.cross_entropy(logits.float().reshape(-1, 256), targets.reshape(-1), reduction="none").view(stack, -1).mean(1)


def aer(n):
    """The alternating exponential ring of n workers on up to four nodes."""
    each = max(1, n // 4)
    rounds, count = [], 0
    for power in range(int(math.log2(n // each))):
        even, odd = torch.zeros(n, n), torch.zeros(n, n)
        for j in range(n // each):
            k = j ^ (1 << power)
            if k < j:
                continue
            a, b = list(range(j * each, (j + 1) * each)), list(range(k * each, (k + 1) * each))
            inside, across = (even, odd) if count % 2 == 0 else (odd, even)
            count += 1
            for group in (a, b):
                for x in group:
                    inside[x, group] = 1 / each
            for x in a + b:
                across[x, a + b] = 1 / (2 * each)
        rounds += [even, odd]
    return torch.stack(rounds).to(device)


def exp(n):
    rounds = []
    for power in range(int(math.log2(n))):
        w = torch.zeros(n, n)
        for i in range(n):
            w[i, i] = w[i, i ^ (1 << power)] = 0.5
        rounds.append(w)
    return torch.stack(rounds).to(device)


def update(method, model, x, g, noise, first, state, w, lr, b1, b2, k, n, more):
    """One step of all workers of a job. x, g [runs * n, size]; noise is ((a - b) / 2)^2 of the gradients a, b of the two halves of each worker's batch.

    ar      all-reduce: the mean gradient            dec     every worker its own second moment
    pool    own ones, averaged over all workers      oracle  that of the mean gradient, own first moments
    half    noise taken out element by element: max(v - (1 - 1/n) noise, floor v / n)
    blkB    by its share rho in blocks of B elements: v (1 - (1 - 1/n) rho); tens: by parameter; glob: of the whole model
    lagB    as blkB without halves: the share of signal is |mean of g_t g_(t-1)| over mean of g_t^2
    """
    def over(t):
        return t.view(-1, n, t.shape[-1]).mean(1, keepdim=True).expand(-1, n, -1).reshape(t.shape)

    def blocks(t, size):
        return t.view(t.shape[0], -1, size).mean(-1)

    def spread(t, size):
        return t[:, :, None].expand(-1, -1, size).reshape(t.shape[0], -1)

    def running(name, now):
        mean = b2 * state[name][:, :now.shape[1]] + (1 - b2) * now
        state[name][:, :now.shape[1]].copy_(mean)
        return mean

    if method == "ar":
        g = over(g)
    clip = (1 / (g.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
    g, noise = g * clip, noise * clip * clip
    old_m, old_v = state["m"].clone(), state["v"].clone()
    m, v = b1 * state["m"] + (1 - b1) * g, b2 * state["v"] + (1 - b2) * g * g
    seen = v / (1 - b2 ** k)
    rho = None
    if method == "pool":
        seen = over(seen)
    elif method == "oracle":
        seen = running("s", over(g) ** 2) / (1 - b2 ** k)
    elif method == "half":
        seen = torch.maximum(seen - (1 - 1 / n) * running("s", noise) / (1 - b2 ** k), more["floor"] / n * seen)
    elif method in ("tens", "glob") or method.startswith("blk"):
        size = int(method[3:]) if method.startswith("blk") else BLOCK
        part, whole = blocks(noise, size), blocks(g * g, size)
        if method == "tens":
            zero = torch.zeros(x.shape[0], len(model.items), device=x.device)
            part, whole = zero.index_add(1, model.tensor_of, part), zero.index_add(1, model.tensor_of, whole)
        elif method == "glob":
            part, whole = part.mean(1, keepdim=True), whole.mean(1, keepdim=True)
        rho = (running("a", part) / (running("d", whole) + 1e-30)).clamp(0, 1)
        if method == "tens":
            rho = spread(rho[:, model.tensor_of], BLOCK)
        elif method != "glob":
            rho = spread(rho, size)
        seen = seen * (1 - (1 - 1 / n) * rho).clamp(min=more["floor"] / n)
    elif method.startswith("lag"):
        size = int(method[3:])
        signal = (running("a", blocks(g * state["last"], size)).abs() / (running("d", blocks(g * g, size)) + 1e-30)).clamp(0, 1)
        seen = seen * spread(1 / n * more["floor"] + (1 - 1 / n * more["floor"]) * signal, size)
        state["last"].copy_(g)
    mix = lambda t: (w @ t.view(-1, n, t.shape[-1])).view(t.shape)
    if more.get("mm"):
        m = over(m)
    if "mc" in more:  # neighbours drift apart where momenta differ: what mixing moves is what the own momentum should have been
        m = m - more["mc"] * (mix(x) - x) * (seen.sqrt() + 1e-8) * (1 - b1 ** k) / lr
    d = (m / (1 - b1 ** k)) / (seen.sqrt() + 1e-8)
    if "al" in more:
        ahead = more["al"]
        if ahead == "ad":  # what of the own update is expected to be everybody's
            kept = (1 - b1) / (1 + b1)
            ahead = (1 - rho + rho * kept / n) / (1 - rho + rho * kept + 1e-12)
        state["back"].copy_((1 - ahead) * lr * d)
    state["m"].copy_(m)
    state["v"].copy_(v)
    shrink = 1 - lr * 0.1 * model.decay
    if "pr" in more:  # neighbours get where this worker will be if it moves as it did last
        now, last = x * (1 - shrink) + lr * d, state["u"]
        y = mix(x - more["pr"] * last) + more["pr"] * last - now
        state["u"].copy_(now)
        x.copy_(y)
        return
    if more.get("mid"):  # neighbours get, half-way through the batch, where the first half alone would lead
        first = first * (1 / (first.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
        ahead = (b2 * old_v + (1 - b2) * first * first) / (1 - b2 ** k) * (seen / (v / (1 - b2 ** k) + 1e-30))
        p = x * shrink - lr * ((b1 * old_m + (1 - b1) * first) / (1 - b1 ** k)) / (ahead.sqrt() + 1e-8)
        x.copy_(x * shrink - lr * d + mix(p) - p)
        return
    x.copy_(mix(x * shrink - lr * d) if more.get("atc") else mix(x) * shrink - lr * d)


LOSS = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of
UPDATE = torch.compile(update, dynamic=False) if device == "cuda" else update
if device == "cuda":
    import torch._dynamo
    for limit in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, 256)


class Batch:
    """Jobs with the same seeds, trained at once."""

    def __init__(self, model, n, sequences, steps, jobs, data):
        self.model, self.n, self.sequences, self.steps, self.jobs, self.data = model, n, sequences, steps, jobs, data
        self.per_job = len(jobs[0]["seeds"]) * n
        self.runs = [seed for job in jobs for seed in job["seeds"]]
        self.x = torch.zeros(len(self.runs) * n, model.size, device=device)
        self.halves = torch.zeros(len(self.runs) * n * 2, model.size, device=device, requires_grad=True)
        self.states = [{name: torch.zeros(self.per_job, model.size, device=device) for name in ("m", "v", "s", "a", "d", "last", "back", "u")} for _ in jobs]
        self.k = torch.zeros((), device=device)
        seeds = sorted(set(self.runs))
        draw = lambda seed: torch.randint(0, len(data) - model.context - 1, (steps, n, sequences), generator=torch.Generator().manual_seed(1000 + seed))
        self.offsets = torch.stack([draw(seed) for seed in seeds], 1).to(device)
        self.seed_at = torch.tensor([seeds.index(seed) for seed in self.runs], device=device)
        self.places = torch.arange(model.context + 1, device=device)
        self.topologies = {"aer": aer(n), "exp": exp(n), "complete": torch.full((1, n, n), 1 / n, device=device)}

    def step(self):
        offsets = self.offsets.index_select(0, self.k.long().view(1))[0][self.seed_at]
        text = self.data[(offsets[..., None] + self.places).view(-1)].view(len(self.runs) * self.n * 2, self.sequences // 2, -1).long()
        with torch.no_grad():
            back = torch.cat([state["back"] for state in self.states])
            self.halves.copy_((self.x + back).repeat_interleave(2, 0))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = LOSS(self.model, self.halves, text[..., :-1], text[..., 1:])
        (gradient,) = torch.autograd.grad(loss.sum(), self.halves)
        with torch.no_grad():
            a, b = gradient.view(len(self.runs) * self.n, 2, -1).unbind(1)
            g, noise = (a + b) / 2, ((a - b) / 2) ** 2
            self.k += 1
            curve = torch.clamp(self.k / 100, max=1.0) * (0.1 + 0.45 * (1 + torch.cos(math.pi * self.k / self.steps)))
            for j, job in enumerate(self.jobs):
                rounds = self.topologies[job.get("topo", "aer")]
                w = rounds.index_select(0, ((self.k - 1) % len(rounds)).long().view(1))[0]
                own = slice(j * self.per_job, (j + 1) * self.per_job)
                more = {"floor": job.get("floor", 1.0), **{key: job[key] for key in ("atc", "al", "mid", "mm", "mc", "pr") if key in job}}
                UPDATE(job["m"], self.model, self.x[own], g[own], noise[own], a[own], self.states[j], w, curve * job["lr"], job.get("b1", 0.9), job.get("b2", 0.98),
                       self.k, self.n, more)

    def train(self, validation):
        replay = self.step
        if device == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self.step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.step()
            replay = graph.replay
        with torch.no_grad():
            self.x.copy_(torch.stack([self.model.start(seed) for seed in self.runs]).repeat_interleave(self.n, 0))
            self.k.zero_()
            for state in self.states:
                for tensor in state.values():
                    tensor.zero_()
        curves = [[] for _ in self.runs]
        for k in range(1, self.steps + 1):
            replay()
            if k in (self.steps // 10, self.steps // 4, self.steps // 2, self.steps):
                for curve, loss in zip(curves, self.evaluate(validation)):
                    curve.append(round(loss, 4))
        return curves

    @torch.no_grad()
    def evaluate(self, validation):
        mean = self.x.view(len(self.runs), self.n, -1).mean(1)
        stack = lambda t: t[None].expand(len(self.runs), -1, -1)
        return (sum(loss_of(self.model, mean, stack(v[:, :-1]), stack(v[:, 1:])) for v in validation) / len(validation)).tolist()


def text(most):
    files = sorted(glob.glob(os.path.join(os.path.dirname(torch.__file__), "**/*.py"), recursive=True))
    return torch.frombuffer(bytearray(b"".join(open(file, "rb").read() for file in files)[:most]), dtype=torch.uint8)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        study = json.load(file)
    limit, begin, last, models = float(sys.argv[3]), time.time(), 0.0, {}
    data = text(study.get("text", 40_000_000))
    cut, context = int(len(data) * 0.95), study["T"]
    train, held_out = data[:cut].to(device), data[cut:].to(device)
    places = torch.randint(0, len(held_out) - context - 1, (32, 32, 1), generator=torch.Generator().manual_seed(9)) + torch.arange(context + 1)
    validation = list(held_out[places.to(device)].long())
    with open(sys.argv[2], "a", encoding="utf-8") as out:
        for batch in study["batches"]:
            if time.time() - begin + last > limit:
                print("time limit", flush=True)
                break
            start, shape = time.time(), tuple(batch.get("spec", study["spec"]))
            model = models.setdefault(shape, Model(*shape, context))
            jobs = [{"seeds": batch.get("seeds", study["seeds"]), **job} for job in batch["jobs"]]
            n, steps = batch.get("n", study["n"]), batch.get("steps", study["steps"])
            trained = Batch(model, n, batch.get("bs", study["bs"]), steps, jobs, train)
            curves, each = trained.train(validation), trained.per_job // n
            for j, job in enumerate(jobs):
                own = curves[j * each:(j + 1) * each]
                out.write(json.dumps({**job, "n": n, "steps": steps, "curves": own}) + "\n")
                out.flush()
                print({key: value for key, value in job.items() if key != "seeds"}, n, "workers,", steps, "steps: mean loss",
                      round(sum(curve[-1] for curve in own) / len(own), 4), [curve[-1] for curve in own], flush=True)
            del trained
            last = time.time() - start


main()
