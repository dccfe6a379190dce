#!/usr/bin/python3
"""What the death of a worker costs: kith train beside PyTorch's DDP under torchrun, on the same hosts of the lab. Needs root.

    bench/survival/beside_ddp.py [--rate 1gbit] [--kills 3] [--save-every 50] [--kith PATH]

Four hosts, one worker each, the model of `kith demo`. Every --every steps one worker is killed, never that of the first host, where the
stores are. kith's others go on. torchrun ends all workers, starts four again, and they go on from the checkpoint, taken every --save-every
steps. The time lost to a kill is the time from the kill until every worker that is there then has done one step more than anybody had at
the kill, less a median iteration. It ends with the goal: less is lost than by DDP, in the median. Exit code 1 when a run does not end well or the goal is missed.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import runs

HOSTS = 4
TEXT = os.path.join(ROOT, "share/text/austen.txt")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", default="1gbit", help="of each host's link")
    parser.add_argument("--kills", type=int, default=3, help="kith has as many workers fewer at the end; 1 to 3")
    parser.add_argument("--every", type=int, default=120, help="steps from the start, or from one kill to the next")
    parser.add_argument("--save-every", type=int, default=50, help="steps; of DDP's checkpoints")
    parser.add_argument("--kith", help="the program (default build/release/bin/kith)")
    options = parser.parse_args()
    if not 1 <= options.kills < HOSTS:
        parser.error(f"--kills: {options.kills} is not 1 to {HOSTS - 1}")
    options.steps = options.every * (options.kills + 1)
    return options


def lab(options, environment, command):
    return [os.path.join(ROOT, "share/hostlab/hostlab"), "--hosts", str(HOSTS), "--rate", options.rate, "--keep-going", "--timeout", "900",
            "--env", "OMP_NUM_THREADS=1", *environment, "--", *command]


def kith_command(options, run):
    values = ["model.width=128", "rate.lr=4e-3", f"train.steps={options.steps}", "train.eval_every=0", "checkpoint.minutes=0"]
    return lab(options, [], [runs.find_kith(options.kith), "train", "--out", run, *runs.settings(values)])


def ddp_command(options, run):
    worker = [os.path.join(HERE, "ddp_elastic.py"), "--run", run, "--text", TEXT, "--steps", str(options.steps),
              "--save-every", str(options.save_every)]
    # Debian's torchrun cannot redirect to nowhere under Python 3.11, so it also writes logs.
    torchrun = ["/usr/bin/python3", "-m", "torch.distributed.run", "--nnodes", str(HOSTS), "--nproc_per_node", "1", "--max_restarts",
                str(options.kills + 1), "--rdzv_backend", "c10d", "--rdzv_id", "kith", "--rdzv_endpoint", "10.77.0.1:29600",
                "--log_dir", run, "-r", "1", "-t", "1"]
    return lab(options, ["--env", "GLOO_SOCKET_IFNAME=eth0", "--env", "TP_SOCKET_IFNAME=eth0"], [*torchrun, *worker])


def kith_files(run):
    return [os.path.join(run, f"worker-{worker}", "metrics.jsonl") for worker in range(HOSTS)]


def ddp_files(run):
    return [os.path.join(run, f"worker-{worker}.jsonl") for worker in range(HOSTS)]


def steps_of(file):
    """{step: when the worker did it first}."""
    found = {}
    for line in runs.read(file).split(b"\n")[:-1] if os.path.exists(file) else []:
        record = json.loads(line)
        if record.get("kind", "step") == "step":
            found.setdefault(record["step"], record["time"])
    return found


def farthest(files):
    return max((max(steps_of(file), default=0) for file in files), default=0)


def is_worker(pid, program):
    """Not a launcher that has the same words further back."""
    words = runs.read(f"/proc/{pid}/cmdline").split(b"\0")
    return b"torch.distributed.run" not in words and any(os.path.basename(word).decode() == program for word in words[:3])


def victims(run, program):
    """{worker: process} of those that may be killed."""
    found = {}
    for pid in run.processes():
        try:
            environment = dict(w.split(b"=", 1) for w in runs.read(f"/proc/{pid}/environ").split(b"\0") if b"=" in w)
            if b"RANK" in environment and is_worker(pid, program):
                found[int(environment[b"RANK"])] = pid
        except (FileNotFoundError, ProcessLookupError, ValueError):
            continue
    return {worker: pid for worker, pid in found.items() if worker > 0}


def measure(name, command, files, program, options, folder):
    """Seconds lost to each kill."""
    kills = []  # (when, what anybody had done)
    with runs.Run(command, folder, f"{folder}.log") as run:
        while run.running():
            time.sleep(0.05)
            if len(kills) < options.kills and farthest(files) >= options.every * (len(kills) + 1):
                alive = victims(run, program)
                if alive:
                    os.kill(alive[max(alive)], signal.SIGKILL)
                    kills.append((time.time(), farthest(files)))
        if farthest(files) < options.steps or len(kills) < options.kills:
            raise SystemExit(f"{name} ended with code {run.wait(1)} after {len(kills)} kills:\n{run.tail(30)}")
    workers = [steps_of(file) for file in files]
    times = [when for _, when in sorted(workers[0].items())]
    iteration = statistics.median(b - a for a, b in zip(times, times[1:]))
    # Who never does the next step is gone for good.
    lost = [max(0.0, max(done[step + 1] for done in workers if step + 1 in done) - when - iteration) for when, step in kills]
    print(f"{name}: an iteration takes {1e3 * iteration:.1f} ms; lost to each kill, in s: {', '.join(f'{one:.2f}' for one in lost)}", flush=True)
    return lost


def main():
    options = parse()
    folder = tempfile.mkdtemp(prefix="kith-beside-ddp-")
    try:
        lost = {}
        for name, command, files, program in (("kith", kith_command, kith_files, "kith"),
                                              ("ddp", ddp_command, ddp_files, "ddp_elastic.py")):
            run = os.path.join(folder, name)
            if name == "ddp":
                os.mkdir(run)
            lost[name] = statistics.median(measure(name, command(options, run), files(run), program, options, run))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    met = lost["kith"] < lost["ddp"]
    print(f"goal survival.lost-seconds-per-kill {lost['kith']:.2f} {lost['ddp']:.2f} {'met' if met else 'missed'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
