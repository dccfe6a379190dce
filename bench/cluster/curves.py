"""Loss over seconds of training, from the run folder of kith train or of ddp_gpt.py."""
import json
import os
from typing import NamedTuple, Optional


class Waits(NamedTuple):
    step_s: float  # of a step, the mean over steps and workers; the first tenth aside
    waited_s: Optional[float]  # of it, waiting for other workers; None where the run does not tell


def curve(run):
    """[(steps, seconds of training so far, loss)] at the evaluations; seconds are the mean over workers."""
    clocks, points, worker = [], [], 0
    while os.path.exists(os.path.join(run, f"worker-{worker}", "metrics.jsonl")):
        seconds, at = 0.0, {}
        with open(os.path.join(run, f"worker-{worker}", "metrics.jsonl"), encoding="ascii") as lines:
            for line in map(json.loads, lines):
                if line["kind"] == "step":
                    seconds += line["seconds"]
                    at[line["step"]] = seconds
                elif worker == 0 and line["kind"] == "eval":
                    points.append((line["step"], line["loss"]))
        clocks.append(at)
        worker += 1
    return [(step, sum(at[step] for at in clocks) / len(clocks), loss) for step, loss in points]


def waits(run):
    """What a step took."""
    seconds, waited, tells, worker = [], [], False, 0
    while os.path.exists(os.path.join(run, f"worker-{worker}", "metrics.jsonl")):
        with open(os.path.join(run, f"worker-{worker}", "metrics.jsonl"), encoding="ascii") as lines:
            steps = [line for line in map(json.loads, lines) if line["kind"] == "step"]
        for step in steps[len(steps) // 10:]:
            seconds.append(step["seconds"])
            waited.append(step.get("waited_seconds", 0.0))
            tells = tells or "waited_seconds" in step
        worker += 1
    return Waits(sum(seconds) / len(seconds), sum(waited) / len(waited) if tells else None)
