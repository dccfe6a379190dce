"""A Trainer as people know it from other libraries, over kith: arguments, callbacks, evaluation, checkpoints, resuming.

    kith launch --workers 4 -- python3 examples/python/trainer.py --output /tmp/run
    kith launch --workers 4 -- python3 examples/python/trainer.py --output /tmp/run --resume

A run that was resumed has the bits of one that never stopped.
"""

import argparse
import os
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import kith


@dataclass
class TrainingArguments:
    output: str
    steps: int = 200
    batch: int = 16
    accumulate: int = 2  # micro-batches a step
    lr: float = 3e-3
    warmup: int = 20
    max_norm: float = 1.0
    save_every: int = 50
    log_every: int = 50
    topology: str = "aer"
    algorithm: str = "awc"


class Trainer:
    """Trains `net` on `train`; loss(net, batch) is a scalar."""

    def __init__(self, net, loss, train, test, args, world, callbacks=()):
        self.args, self.world, self.loss, self.test, self.callbacks = args, world, loss, test, callbacks
        self.net = net.to(world.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=args.lr)
        self.model = kith.DecentralizedDataParallel(
            self.net, self.optimizer, topology=args.topology, algorithm=args.algorithm
        )
        warm = lambda step: min(1.0, (step + 1) / args.warmup)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, warm)
        self.sampler = DistributedSampler(train, num_replicas=world.size, rank=world.rank)
        own = torch.Generator()  # a loader's seeds are not taken from those of the model
        self.loader = DataLoader(train, args.batch, sampler=self.sampler, drop_last=True, generator=own)

    def batches(self):
        """From where the run stands, for ever."""
        done = self.model.steps * self.args.accumulate
        epoch, skip = divmod(done, len(self.loader))
        while True:
            self.sampler.set_epoch(epoch)
            for i, batch in enumerate(self.loader):
                if i >= skip:
                    yield [t.to(self.world.device) for t in batch]
            epoch, skip = epoch + 1, 0

    def train(self):
        batches = self.batches()
        while self.model.steps < self.args.steps:
            self.optimizer.zero_grad(set_to_none=True)
            with self.model.no_sync():
                for _ in range(self.args.accumulate - 1):
                    (self.loss(self.model, next(batches)) / self.args.accumulate).backward()
            loss = self.loss(self.model, next(batches)) / self.args.accumulate
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.args.max_norm)
            self.optimizer.step()
            self.scheduler.step()
            step = self.model.steps
            if step % self.args.log_every == 0:
                self.tell(step, {"loss": loss.item() * self.args.accumulate, "waited": self.model.report().waited})
            if step % self.args.save_every == 0:
                self.save()
        self.tell(self.model.steps, {"eval_loss": self.evaluate()})

    def evaluate(self):
        """The mean model's loss; every worker has a part of the test set."""
        with self.model.average(), torch.no_grad():
            self.net.eval()
            part = [t[self.world.rank :: self.world.size].to(self.world.device) for t in self.test.tensors]
            own = self.loss(self.net, part).item()
            self.net.train()
        return sum(self.model.gather(own)) / self.world.size

    def checkpoint(self):
        return os.path.join(self.args.output, f"worker{self.world.rank}.pt")

    def save(self):
        os.makedirs(self.args.output, exist_ok=True)
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state["scheduler"], state["random"] = self.scheduler.state_dict(), torch.get_rng_state()
        torch.save(state, self.checkpoint() + ".new")
        self.model.barrier()  # all have written: the old ones may go
        os.replace(self.checkpoint() + ".new", self.checkpoint())

    def resume(self):
        state = torch.load(self.checkpoint())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["random"].cpu())

    def tell(self, step, numbers):
        if self.world.rank == 0:
            for callback in self.callbacks:
                callback(step, numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default=None)
    given = parser.parse_args()

    world = kith.init(device=given.device)
    torch.manual_seed(0)
    x = torch.rand(4096, 2) * 4 - 2
    angle = x.norm(dim=1) * 3 + torch.atan2(x[:, 1], x[:, 0])
    data = TensorDataset(x, (angle.sin() > 0).long())  # two spirals
    train, test = TensorDataset(*data[:3584]), TensorDataset(*data[3584:])
    net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, 2))
    loss = lambda model, batch: F.cross_entropy(model(batch[0]), batch[1])
    show = lambda step, numbers: print(f"step {step}:", ", ".join(f"{k} {v:.4f}" for k, v in numbers.items()), flush=True)
    args = TrainingArguments(output=given.output, steps=given.steps)
    trainer = Trainer(net, loss, train, test, args, world, [show])
    if given.resume:
        trainer.resume()
    trainer.train()


if __name__ == "__main__":
    main()
