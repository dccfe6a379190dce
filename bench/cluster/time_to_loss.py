#!/usr/bin/python3
"""Time to the same loss on four hosts: PyTorch's DDP (plain, fp16 hook, PowerSGD) against kith decentralised.

    bench/cluster/time_to_loss.py --out FOLDER [--rate 200mbit] [--only NAME]... [--kith build/release/bin/kith]
    bench/cluster/time_to_loss.py --out FOLDER --report

Every run is kept in FOLDER/RATE/NAME and not run again; --report puts together what is there. The target is the final validation loss
of plain DDP. A method's time is the seconds of training, without evaluations, until its evaluations (straight lines between them) come
down to the target plus --tolerance. The peer is the fastest of the three that gets there. Ends with goal lines.

For slow links there are more, which run when --only names them: the model itself in 8 bits (kith-wire8; kith-wire8-every2 mixes in every second step),
differences by the codecs int8 and sign, and the outer loops diloco and noloco. ddp-alone never synchronises: it takes the time of DDP's computing.
    bench/cluster/time_to_loss.py --out FOLDER --rate 100mbit --only ddp --only ddp-fp16 --only ddp-powersgd --only kith-wire8
--far names those of machines far apart at once, and tells tokens per second, the time that a step waits for others, and the loss over time:
    bench/cluster/time_to_loss.py --out FOLDER --rate 50mbit --far
"""
import argparse
import ctypes
import os
import shlex
import subprocess
import sys

from curves import curve, waits

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HOSTLAB = os.path.join(ROOT, "share/hostlab/hostlab")
TEXT = os.path.join(ROOT, "share/text/austen.txt")

# The model of kith demo, its batch and its rate, for everybody.
COMMON = ["world.workers=4", "model.width=128", "optimizer.beta2=0.95", "rate.lr=4e-3", "rate.warmup=20", "train.eval_samples=512"]
HOOKS = {"ddp": "none", "ddp-fp16": "fp16", "ddp-powersgd": "powersgd"}
ALONE = "ddp-alone"
KITH = {
    "kith": ["algorithm.name=awc", "topology.name=aer", "wire.type=bf16"],
    "kith-allreduce": ["algorithm.name=allreduce", "wire.type=fp32"],  # DDP's mathematics: a check, and no part of the goal
}
FAR = {
    "kith-wire8": ["algorithm.name=awc", "topology.name=aer", "wire.type=int8"],
    "kith-wire8-every2": ["algorithm.name=awc", "topology.name=aer", "wire.type=int8", "algorithm.mix_every=2"],
    "kith-int8": ["algorithm.name=awc", "topology.name=aer", "wire.codec=int8"],
    "kith-sign": ["algorithm.name=awc", "topology.name=aer", "wire.codec=sign"],
    "diloco": ["algorithm.name=diloco", "topology.name=complete", "algorithm.trigger=every 50"],
    "noloco": ["algorithm.name=noloco", "topology.name=matching", "algorithm.trigger=every 50"],
}
GOALS = {"200mbit": 0.40, "1gbit": 0.65, "10gbit": 1.0}
OUTER = [*HOOKS, ALONE, "kith-wire8", "diloco", "noloco"]  # --far
EIGHT_BITS = ["kith-wire8", "kith-wire8-every2", "kith-int8", "kith-sign"]
# Iterations of these in one of the fastest DDP, at least; their steps over DDP's for its loss, at most.
SPEED_GOALS = {"100mbit": (4.0, 1.2)}
EVALUATIONS = 12
TOKENS = 4 * 4 * 64  # of a step: workers, their batches, the context
AGREE = 0.02  # final losses of DDP and of kith's all-reduce, which do the same sums in another order


def parse():
    parser = argparse.ArgumentParser(prog="bench/cluster/time_to_loss.py", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kith", default=os.path.join(ROOT, "build/release/bin/kith"), help="the program")
    parser.add_argument("--python", default="/usr/bin/python3", help="one with torch")
    parser.add_argument("--out", required=True, help="keeps the runs there")
    parser.add_argument("--rate", action="append", default=[], help="of each host's link; repeatable (default: 200mbit, 1gbit, 10gbit)")
    parser.add_argument("--only", action="append", default=[], choices=[*HOOKS, ALONE, *KITH, *FAR], help="these alone; repeatable")
    parser.add_argument("--far", action="store_true", help=f"the same as --only for each of {', '.join(OUTER)}, and more of a report")
    parser.add_argument("--steps", type=int, default=400, help="of DDP")
    parser.add_argument("--more", action="append", default=[], metavar="NAME=FACTOR",
                        help="a method's steps over DDP's (default: kith and its 8-bit methods 1.3, ddp-powersgd 1.25, else 1)")
    parser.add_argument("--tolerance", type=float, default=0.005, help="over the target: seeds differ by as much")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for all, as kith train takes it")
    parser.add_argument("--set-kith", action="append", default=[], metavar="KEY=VALUE", help="for kith decentralised alone")
    parser.add_argument("--report", action="store_true", help="runs nothing")
    options = parser.parse_args()
    options.rate = options.rate or list(GOALS)
    if options.far:
        options.only += [name for name in OUTER if name not in options.only]
    options.factors = {"kith": 1.3, "ddp-powersgd": 1.25, **{name: 1.3 for name in EIGHT_BITS}}
    for more in options.more:
        name, _, factor = more.partition("=")
        if name not in HOOKS and name not in KITH and name not in FAR:
            parser.error(f"--more: '{name}' is none of {', '.join([*HOOKS, *KITH, *FAR])}")
        options.factors[name] = float(factor)
    return options


def blas_kernels():
    """For everybody what kith chooses for itself: Note [Products of matrices for this processor] in cli/blas.h."""
    if "OPENBLAS_CORETYPE" in os.environ:
        return os.environ["OPENBLAS_CORETYPE"]
    try:
        library = ctypes.CDLL("libopenblas.so.0")
    except OSError:
        return None
    library.openblas_get_corename.restype = ctypes.c_char_p
    chosen = library.openblas_get_corename().decode()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    if chosen in ("SkylakeX", "Cooperlake", "SapphireRapids"):
        return None
    if all(flag in flags for flag in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")):
        return "SkylakeX"
    return "Haswell" if "avx2" in flags and chosen not in ("Haswell", "Zen") else None


def command_of(options, rate, name, run):
    steps = round(options.steps * options.factors.get(name, 1))
    settings = [*COMMON, f"train.steps={steps}", f"train.eval_every={max(1, steps // EVALUATIONS)}", *options.set]
    command = [HOSTLAB, "--hosts", "4", "--rate", rate, "--logs", run + "-output", "--env", "OMP_NUM_THREADS=1"]
    if kernels := blas_kernels():
        command += ["--env", "OPENBLAS_CORETYPE=" + kernels]
    command.append("--")
    if name in HOOKS or name == ALONE:
        command += [options.python, os.path.join(HERE, "ddp_gpt.py"), "--run", run, "--text", TEXT, "--hook", HOOKS.get(name, "alone")]
    else:
        command += [os.path.abspath(options.kith), "train", "--out", run]
        settings += {**KITH, **FAR}[name] + (options.set_kith if name == "kith" else [])
    for setting in settings:
        command += ["--set", setting]
    return command


def train(options, rate, name):
    run = os.path.join(os.path.abspath(options.out), rate, name)
    done = run + ".command"
    if os.path.exists(done) or options.report:
        return
    os.makedirs(os.path.dirname(run), exist_ok=True)
    subprocess.run(["rm", "-rf", run, run + "-output"], check=True)
    command = command_of(options, rate, name, run)
    print(f"== {rate} {name}", flush=True)
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if ended.returncode != 0:
        sys.exit(f"bench/cluster/time_to_loss.py: {name} ended with exit code {ended.returncode}; see {run}-output")
    with open(done, "w", encoding="utf-8") as file:
        file.write(shlex.join(command) + "\n")


def reached(points, target):
    """(steps, seconds) until the curve has come down to the target; None: never."""
    for (step, second, high), (next_step, next_second, low) in zip(points, points[1:]):
        if low <= target:
            share = 1.0 if high <= low else max(0.0, (high - target) / (high - low))
            return step + share * (next_step - step), second + share * (next_second - second)
    return None


def report_speed(goals, curves, target):
    """Iterations and steps of the 8-bit methods against the fastest DDP's."""
    step = {name: points[-1][1] / points[-1][0] for name, points in curves.items()}
    fastest = min((name for name in HOOKS if name in step), key=step.get)
    print(f"  the fastest iteration of DDP is that of {fastest}")
    for name in EIGHT_BITS:
        if name not in curves:
            continue
        speed, there = step[fastest] / step[name], reached(curves[name], target)
        factor = there[0] / curves["ddp"][-1][0] if there else float("inf")
        print(f"goal iteration-speed-{name} {speed:.3g} {goals[0]} {'met' if speed >= goals[0] else 'missed'}")
        print(f"goal steps-factor-{name} {factor:.3g} {goals[1]} {'met' if factor <= goals[1] else 'missed'}")


def report_far(runs, curves):
    """Tokens per second of all workers, and what a step waits for others: kith's own measure, or what DDP takes over DDP alone."""
    alone = waits(os.path.join(runs, ALONE)) if os.path.exists(os.path.join(runs, ALONE + ".command")) else None
    print("                    tokens/s  ms/step  waiting ms/step  its share")
    for name in curves:
        each = waits(os.path.join(runs, name))
        waited = each.waited_s if each.waited_s is not None else alone and max(0.0, each.step_s - alone.step_s)
        told = "   not known: ddp-alone was not run" if waited is None else f"{1e3 * waited:16.1f}  {100 * waited / each.step_s:8.0f}%"
        print(f"  {name:16s} {TOKENS / each.step_s:10.0f} {1e3 * each.step_s:8.1f} {told}")
    print("  loss over seconds of training:")
    for name, points in curves.items():
        print(f"  {name:16s} " + "  ".join(f"{seconds:.0f} s {loss:.3f}" for _, seconds, loss in points))


def report(options, rate):
    runs = os.path.join(options.out, rate)
    curves = {name: curve(os.path.join(runs, name)) for name in [*HOOKS, *KITH, *FAR] if os.path.exists(os.path.join(runs, name + ".command"))}
    if not curves.get("ddp"):
        print(f"\n{rate}: no run of ddp to take the target from")
        return
    target = curves["ddp"][-1][2] + options.tolerance
    print(f"\n4 hosts, {rate}/s each: seconds of training until validation loss {target:.4f} (DDP's final loss + {options.tolerance})")
    print("                    steps  ms/step  final loss  seconds and steps to the loss")
    times = {}
    for name, points in curves.items():
        steps, seconds, loss = points[-1]
        there = reached(points, target)
        times[name] = there[1] if there else None
        told = f"{there[1]:8.1f}  {there[0]:8.0f}" if there else f"{'never':>8s}"
        print(f"  {name:17s} {steps:5d} {1e3 * seconds / steps:8.1f}    {loss:8.4f}  {told}")
    if options.far:
        report_far(runs, curves)
    if rate in SPEED_GOALS:
        report_speed(SPEED_GOALS[rate], curves, target)
    if "kith-allreduce" in curves:
        apart = abs(curves["kith-allreduce"][-1][2] - curves["ddp"][-1][2])
        print(f"  check: kith's all-reduce and DDP end {apart:.4f} apart ({'as they should' if apart <= AGREE else 'NOT THE SAME JOB'})")
    peers = {name: times[name] for name in HOOKS if times.get(name) is not None}
    if peers and "kith" in times and rate in GOALS:
        peer = min(peers, key=peers.get)
        ratio = times["kith"] / peers[peer] if times["kith"] is not None else float("inf")
        print(f"  the peer is {peer}")
        print(f"goal time-to-loss-{rate} {ratio:.3g} {GOALS[rate]} {'met' if ratio <= GOALS[rate] else 'missed'}")


def main():
    options = parse()
    for rate in options.rate:
        for name in options.only or [*HOOKS, *KITH]:
            train(options, rate, name)
    for rate in options.rate:
        report(options, rate)
    return 0


sys.exit(main())
