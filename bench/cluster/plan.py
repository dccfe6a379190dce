#!/usr/bin/python3
"""The planner against training itself: kith profile and kith plan predict, kith train measures, on four hosts of the lab.

    bench/cluster/plan.py [--kith build/release/bin/kith] [--rates 200mbit,1gbit] [--steps 60] [--out FOLDER]

The job is the one of `kith train` (a byte-level GPT). For each rate the job is profiled on the hosts where it will run, planned from the profile alone, and
trained in several ways. Ends with a goal line, as the benchmarks do.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOSTLAB = os.path.join(ROOT, "share/hostlab/hostlab")
MOST_MEDIAN_ERROR = 0.15

# What is trained, and how the plan names it.
WAYS = {
    "all-reduce": (["algorithm.name=allreduce"], {"method": "all-reduce", "collective": "three-hop", "wire": "fp32"}),
    "exp": (["topology.name=exp"], {"topology": "exp", "wire": "fp32"}),
    "aer": (["topology.name=aer"], {"topology": "aer", "wire": "fp32"}),
    "aer bf16": (["topology.name=aer", "wire.type=bf16"], {"topology": "aer", "wire": "bf16"}),
}


def parse():
    parser = argparse.ArgumentParser(prog="bench/cluster/plan.py", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kith", default=os.path.join(ROOT, "build/release/bin/kith"), help="the program")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rates", default="200mbit,500mbit,1gbit", help="of each host's link, one after the other")
    parser.add_argument("--steps", type=int, default=60, help="of each training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the job, as kith train takes it")
    parser.add_argument("--out", help="keeps profiles and run folders there")
    return parser.parse_args()


def on_hosts(options, rate, logs, words):
    command = [HOSTLAB, "--hosts", str(options.hosts), "--rate", rate, "--logs", logs, "--env", "OMP_NUM_THREADS=1", "--",
               os.path.abspath(options.kith), *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"bench/cluster/plan.py: '{' '.join(words)}' ended with exit code {done.returncode}; see {logs}")


def settings_of(options, more=()):
    words = []
    for setting in [f"world.workers={options.hosts}", "train.eval_every=0", "train.eval_samples=8", *options.set, *more]:
        words += ["--set", setting]
    return words


def predictions(options, rate, folder):
    """Seconds per iteration by way, from a profile alone."""
    profile = os.path.join(folder, f"{rate}.json")
    on_hosts(options, rate, os.path.join(folder, f"{rate}-profile"), ["profile", "--out", profile, *settings_of(options)])
    plan = json.loads(subprocess.run([options.kith, "plan", "--profile", profile, "--json"], check=True, capture_output=True).stdout)
    found = {}
    for name, (_, wanted) in WAYS.items():
        for candidate in plan["candidates"]:
            plain = candidate["every"] == 1 and candidate["bucket_bytes"] == 0
            if plain and all(candidate[key] == value for key, value in wanted.items()):
                found[name] = candidate["iteration_ms"] / 1e3
    return found


def measurement(options, rate, name, folder):
    run = os.path.join(folder, f"{rate}-{name.replace(' ', '-')}")
    on_hosts(options, rate, run + "-output",
             ["train", "--out", run, *settings_of(options, [f"train.steps={options.steps}", *WAYS[name][0]])])
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as summary:
        return json.load(summary)["seconds_per_iteration"]


def main():
    options = parse()
    errors = []
    with tempfile.TemporaryDirectory(prefix="kith-plan-") as temporary:
        folder = options.out or temporary
        os.makedirs(folder, exist_ok=True)
        print(f"{options.hosts} hosts, {os.cpu_count()} cores, {options.steps} steps")
        print(f"{'rate':>8}  {'way':<12} {'planned ms':>10} {'trained ms':>10} {'error':>7}", flush=True)
        for rate in options.rates.split(","):
            for name, planned in predictions(options, rate, folder).items():
                trained = measurement(options, rate, name, folder)
                errors.append(abs(planned / trained - 1))
                print(f"{rate:>8}  {name:<12} {1e3 * planned:10.1f} {1e3 * trained:10.1f} {100 * (planned / trained - 1):6.1f}%", flush=True)
    if not errors:
        sys.exit("bench/cluster/plan.py: the plan has none of the ways that are trained")
    median = sorted(errors)[len(errors) // 2]
    print(f"goal plan.median_error {median:.4g} {MOST_MEDIAN_ERROR:.4g} {'met' if median <= MOST_MEDIAN_ERROR else 'missed'}")
    return 0


sys.exit(main())
