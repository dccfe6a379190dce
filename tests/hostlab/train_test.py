"""kith train across the hosts of a lab: `train_test.py KITH CLASS` runs one class of tests with that program."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
HOSTLAB = os.path.join(os.path.dirname(os.path.dirname(HERE)), "share/hostlab/hostlab")
KITH = sys.argv.pop(1)
TINY = ["model.layers=1", "model.width=32", "model.heads=2", "model.context=16", "train.batch=2", "rate.warmup=2",
        "train.eval_samples=32", "train.eval_every=0", "output.log_every=1"]


def train(*settings, out):
    command = [KITH, "train", "--out", out]
    for setting in [*TINY, *settings]:
        command += ["--set", setting]
    return command


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kith-hostlab-")
        self.addCleanup(shutil.rmtree, self.folder)

    def summary(self, name):
        with open(os.path.join(self.folder, name, "summary.json"), encoding="ascii") as file:
            return json.load(file)

    def run_folder(self, name):
        return os.path.join(self.folder, name)


class Correctness(TrainTest):
    def compare(self, hosts, workers, *settings):
        """A job on hosts ends with the loss that it has on this machine alone."""
        settings = ["train.steps=12", *settings]
        lab = subprocess.run([HOSTLAB, "--hosts", str(hosts), "--workers", str(workers), "--timeout", "60", "--env",
                              "OMP_NUM_THREADS=1", "--", *train(*settings, out=self.run_folder("hosts"))],
                             capture_output=True, text=True)
        self.assertEqual(lab.returncode, 0, lab.stdout + lab.stderr)
        here = subprocess.run(train(*settings, f"world.workers={hosts * workers}", f"world.nodes={hosts}x{workers}",
                                    out=self.run_folder("here")), capture_output=True, text=True, timeout=60)
        self.assertEqual(here.returncode, 0, here.stderr)
        hosts_run, here_run = self.summary("hosts"), self.summary("here")
        self.assertEqual(hosts_run["nodes"], ",".join([str(workers)] * hosts))
        self.assertAlmostEqual(hosts_run["validation_loss"] / here_run["validation_loss"], 1, delta=1e-5)
        self.assertAlmostEqual(hosts_run["consensus_distance"], here_run["consensus_distance"], delta=1e-4)

    def test_pairs_of_workers_on_two_hosts(self):
        self.compare(2, 2)

    def test_a_worker_on_each_of_four_hosts_with_a_rounded_wire(self):
        self.compare(4, 1, "wire.type=bf16")

    def test_all_reduce(self):
        self.compare(2, 2, "algorithm.name=allreduce", "optimizer.name=adamw")


class Duplex(TrainTest):
    def test_models_that_are_exchanged_travel_at_the_same_time(self):
        mbit = 100
        lab = subprocess.run([HOSTLAB, "--hosts", "2", "--rate", f"{mbit}mbit", "--timeout", "100", "--env", "OMP_NUM_THREADS=1",
                              "--", *train("model.width=128", "model.layers=4", "topology.name=exp", "train.steps=8",
                                           out=self.run_folder("run"))], capture_output=True, text=True)
        self.assertEqual(lab.returncode, 0, lab.stdout + lab.stderr)
        with open(os.path.join(self.run_folder("run"), "worker-0", "metrics.jsonl"), encoding="ascii") as file:
            steps = [line for line in map(json.loads, file) if line["kind"] == "step"][2:]
        travel = steps[0]["bytes_read"] * 8e-6 / (mbit * 1448 / 1514)
        self.assertGreater(travel, 0.2)  # so that computing is nothing beside it
        measured = sum(step["seconds"] for step in steps) / len(steps)
        self.assertGreater(measured, 0.8 * travel)
        self.assertLess(measured, 1.5 * travel)  # one after the other would be 2


class Loss(TrainTest):
    """Worker 2, alone on its host, is lost in the middle of an endless run of three."""

    def start(self, order):
        lab = subprocess.Popen([HOSTLAB, "--hosts", "3", "--timeout", "60", "--keep-going", "--env", "OMP_NUM_THREADS=1",
                                "--when", "step 20/", order, "2", "--",
                                *train("train.steps=1000000", out=self.run_folder("run"))],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lab.stdout.close)
        self.addCleanup(lab.wait)
        self.addCleanup(lab.kill)
        return lab

    def times_of(self, lab, *texts):
        """Seconds until each text has come in a line of the output."""
        times, begin = {}, time.monotonic()
        for line in lab.stdout:
            for text in set(texts) - set(times):
                if text in line:
                    times[text] = time.monotonic() - begin
            if len(times) == len(texts):
                return times
        self.fail(f"the lab ended without {set(texts) - set(times)}")

    def await_lines(self, lab, *texts):
        """Seconds until all of them have come."""
        return max(self.times_of(lab, *texts).values())

    def test_of_a_killed_host_ends_the_others(self):
        lab = self.start("kill")
        self.await_lines(lab, "kill host2")
        self.assertLess(self.await_lines(lab, "worker 2 is gone", "worker 1 on host1 ended with exit code 1",
                                         "worker 0 on host0 ended with exit code 1"), 20)
        self.assertEqual(lab.wait(timeout=20), 1)

    def test_of_a_link_is_noticed_and_ends_the_run(self):
        lab = self.start("down")
        self.await_lines(lab, "down host2")
        # Both sides of the cut.
        notices = ["worker 2 is out of reach", "worker 0 is out of reach", "worker 2 is gone"]
        endings = [f"worker {k} on host{k} ended with exit code 1" for k in range(3)]
        times = self.times_of(lab, *notices, *endings)
        noticed = max(times[text] for text in notices)
        self.assertLess(noticed, 15)
        self.assertLess(max(times[text] for text in endings) - noticed, 5)


if __name__ == "__main__":
    unittest.main()
