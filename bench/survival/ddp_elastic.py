"""One worker of DistributedDataParallel under torchrun that survives a death in PyTorch's way: torchrun ends all workers and starts them
again, and they go on from the last checkpoint.

    ddp_elastic.py --run FOLDER --text FILE --steps N --save-every K

The model, the data and the optimizer are those of bench/cluster/ddp_gpt.py. FOLDER/worker-R.jsonl gets a line for every step: {"step", "time"}.
"""
import argparse
import datetime
import itertools
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "cluster"))
from ddp_gpt import DEFAULTS, Gpt, Text, rate


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True)
    return parser.parse_args()


def save(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    options = parse()
    settings = {**DEFAULTS, "model.width": 128, "rate.lr": 4e-3, "train.steps": options.steps}
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(settings["train.seed"])
    plain = Gpt(settings["model.layers"], settings["model.heads"], settings["model.width"], settings["model.context"])
    optimizer = torch.optim.AdamW(plain.parameters(), betas=(settings["optimizer.beta1"], settings["optimizer.beta2"]))
    checkpoint = os.path.join(options.run, "checkpoint.pt")
    begin = 0
    if os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    model = nn.parallel.DistributedDataParallel(plain, gradient_as_bucket_view=True)
    batches = Text(options.text, settings).training(settings["train.seed"], rank, workers, settings["train.batch"])
    with open(os.path.join(options.run, f"worker-{rank}.jsonl"), "a", encoding="ascii") as lines:
        for step, (tokens, target) in enumerate(itertools.islice(batches, begin, options.steps), start=begin):
            for group in optimizer.param_groups:
                group["lr"] = rate(settings, step)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(tokens), target).backward()
            optimizer.step()
            lines.write(json.dumps({"step": step + 1, "time": time.time()}) + "\n")
            lines.flush()
            if rank == 0 and (step + 1) % options.save_every == 0:
                save(checkpoint, plain, optimizer, step + 1)


if __name__ == "__main__":
    main()
