"""Loss over seconds of training, from the run folder of kith train or of ddp_gpt.py."""
import json
import os


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
