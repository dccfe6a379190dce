#!/usr/bin/python3
"""Draws what bench/cluster --csv wrote: time per iteration over the link's rate, a panel per set-up.

    bench/cluster/plot.py RUN.csv > RUN.svg
"""
import collections
import csv
import math
import statistics
import sys

# mode: colour, dashes
STYLES = {"none": ("#888888", "2 3"), "torch": ("#d62728", "2 3"), "ddp": ("#d62728", ""), "ddp-fp16": ("#d62728", "5 3"),
          "ddp-powersgd": ("#d62728", "1 4"), "allreduce": ("#e08a1e", ""), "exp": ("#2b83ba", ""), "exp-bf16": ("#2b83ba", "5 3"), "aer": ("#1a9850", ""), "aer-bf16": ("#1a9850", "5 3")}
NAMES = {"none": "local only", "torch": "PyTorch, local only", "ddp": "PyTorch DDP (Gloo)", "ddp-fp16": "DDP, fp16 hook",
         "ddp-powersgd": "DDP, PowerSGD", "allreduce": "kith all-reduce"}
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 230, 58, 34, 66


def read(path):
    """{setup: {mode: {gbit: median ms}}}"""
    samples = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            samples[row["setup"]][row["mode"]][float(row["gbit"])].append(float(row["ms"]))
    return {setup: {mode: {gbit: statistics.median(values) for gbit, values in sorted(by_rate.items())}
                    for mode, by_rate in modes.items()} for setup, modes in samples.items()}


def ticks(low, high):
    decade = 10.0 ** math.floor(math.log10(low))
    while decade <= high:
        for factor in (1, 2, 5):
            if low <= factor * decade <= high:
                yield factor * decade
        decade *= 10


def panel(setup, modes, x0, y0):
    rates = sorted({gbit for by_rate in modes.values() for gbit in by_rate})
    times = [ms for by_rate in modes.values() for ms in by_rate.values()]
    low, high = min(times) * 0.8, max(times) * 1.2
    span = math.log(rates[-1] / rates[0]) or 1
    x = lambda gbit: x0 + WIDTH * (math.log(gbit / rates[0]) / span if len(rates) > 1 else 0.5)
    y = lambda ms: y0 + HEIGHT * (1 - math.log(ms / low) / math.log(high / low))
    size, shape = setup.split("_")
    hosts, workers = shape.split("x")
    out = [f'<text x="{x0}" y="{y0 - 12}" font-weight="bold">{size} model, {hosts} hosts x {workers} '
           f'worker{"s" if workers != "1" else ""}</text>',
           f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for ms in ticks(low, high):
        out.append(f'<path d="M{x0} {y(ms):.1f}h{WIDTH}" stroke="#ddd"/>'
                   f'<text x="{x0 - 6}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms:g}</text>')
    for gbit in rates:
        out.append(f'<path d="M{x(gbit):.1f} {y0}v{HEIGHT}" stroke="#eee"/>'
                   f'<text x="{x(gbit):.1f}" y="{y0 + HEIGHT + 16}" text-anchor="middle">{gbit:g}</text>')
    out.append(f'<text x="{x0 + WIDTH / 2}" y="{y0 + HEIGHT + 32}" text-anchor="middle">Gbit/s per host</text>')
    out.append(f'<text transform="translate({x0 - 42} {y0 + HEIGHT / 2}) rotate(-90)" text-anchor="middle">ms per iteration</text>')
    for mode, by_rate in modes.items():
        colour, dashes = STYLES.get(mode, ("#6a3d9a", ""))
        points = " ".join(f"{x(gbit):.1f},{y(ms):.1f}" for gbit, ms in by_rate.items())
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>')
        out += [f'<circle cx="{x(gbit):.1f}" cy="{y(ms):.1f}" r="2.5" fill="{colour}"/>' for gbit, ms in by_rate.items()]
    return out


def main():
    setups = read(sys.argv[1])
    columns = min(2, len(setups))
    lines = -(-len(setups) // columns)
    width = LEFT + columns * (WIDTH + GAP)
    height = TOP + lines * (HEIGHT + GAP + 20) + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for index, (setup, modes) in enumerate(setups.items()):
        out += panel(setup, modes, LEFT + index % columns * (WIDTH + GAP), TOP + index // columns * (HEIGHT + GAP + 20))
    x, y = LEFT, height - 36
    for mode in next(iter(setups.values())):
        colour, dashes = STYLES.get(mode, ("#6a3d9a", ""))
        name = NAMES.get(mode, mode)
        if x + 27 + 6.6 * len(name) > width:
            x, y = LEFT, y + 20
        out.append(f'<path d="M{x:.0f} {y}h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
                   f'<text x="{x + 27:.0f}" y="{y + 4}">{name}</text>')
        x += 42 + 6.6 * len(name)
    print("\n".join([*out, "</svg>"]))


main()
