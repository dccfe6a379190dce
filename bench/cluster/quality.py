#!/usr/bin/python3
"""Equal quality: one job on four hosts, by all-reduce and decentralised, for the same number of steps; loss against time.

    bench/cluster/quality.py [--kith build/release/bin/kith] [--rate 1gbit] [--steps 2000] [--out FOLDER]

The job is the default one of `kith train`, a byte-level GPT, trained for longer. Ends with goal lines, as the benchmarks do.
"""
import argparse
import os
import subprocess
import sys
import tempfile

from curves import curve

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOSTLAB = os.path.join(ROOT, "share/hostlab/hostlab")

COMMON = ["optimizer.name=adamw", "rate.lr=2e-3"]
# What differs between the two: how workers combine, and how long their second moments remember (a worker's own are noisier).
JOBS = {
    "all-reduce": ["algorithm.name=allreduce"],
    "aer": ["algorithm.name=awc", "topology.name=aer", "optimizer.beta2=0.999"],
}


def parse():
    parser = argparse.ArgumentParser(prog="bench/cluster/quality.py", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kith", default=os.path.join(ROOT, "build/release/bin/kith"), help="the program")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit", help="of each host's link")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--evaluations", type=int, default=8, help="over the run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for both, as kith train takes it")
    parser.add_argument("--set-aer", action="append", default=[], metavar="KEY=VALUE", help="for aer alone")
    parser.add_argument("--out", help="keeps the run folders there")
    return parser.parse_args()


def train(options, name, folder):
    settings = [f"train.steps={options.steps}", f"train.eval_every={max(1, options.steps // options.evaluations)}",
                "train.eval_samples=512", f"world.workers={options.hosts}", *COMMON, *JOBS[name], *options.set]
    if name == "aer":
        settings += options.set_aer
    run = os.path.join(folder, name)
    command = [HOSTLAB, "--hosts", str(options.hosts), "--rate", options.rate, "--logs", run + "-output", "--env",
               "OMP_NUM_THREADS=1", "--", os.path.abspath(options.kith), "train", "--out", run]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        with open(os.path.join(run + "-output", "worker-0.log"), encoding="utf-8", errors="replace") as log:
            sys.stderr.writelines(log.readlines()[-10:])
        sys.exit(f"bench/cluster/quality.py: {name} ended with exit code {done.returncode}; see {run}-output")
    return curve(run)


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="kith-quality-") as temporary:
        folder = options.out or temporary
        os.makedirs(folder, exist_ok=True)
        curves = {name: train(options, name, folder) for name in JOBS}
    print(f"{options.hosts} hosts, {options.rate}/s each, {options.steps} steps")
    print("          all-reduce            aer")
    print("  step   seconds   loss    seconds   loss")
    for (step, reduce_seconds, reduce_loss), (_, mix_seconds, mix_loss) in zip(curves["all-reduce"], curves["aer"]):
        print(f"{step:6d}  {reduce_seconds:8.1f}  {reduce_loss:.4f}  {mix_seconds:8.1f}  {mix_loss:.4f}")
    reduce, mix = curves["all-reduce"][-1], curves["aer"][-1]
    for name, measured, target, met in [("quality.loss_over_allreduce", mix[2] / reduce[2], 1.01, mix[2] <= 1.01 * reduce[2]),
                                        ("quality.time_over_allreduce", mix[1] / reduce[1], 1, mix[1] <= reduce[1])]:
        print(f"goal {name} {measured:.4g} {target:.4g} {'met' if met else 'missed'}")
    return 0


sys.exit(main())
