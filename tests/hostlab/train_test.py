"""kith train across the hosts of a lab: `train_test.py KITH CLASS` runs one class of tests with that program."""
import json
import os
import re
import shutil
import signal
import statistics
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

    def end(self, lab):
        """Kills the workers. None of them runs, or writes, when this returns; after SIGKILL of the lab they would still be dying."""
        for number in (signal.SIGTERM, signal.SIGINT):  # the first asks, the second kills
            lab.send_signal(number)
        lab.communicate(timeout=30)


class Correctness(TrainTest):
    def compare(self, hosts, workers, *settings):
        """A job on hosts ends with the loss that it has on this machine alone."""
        settings = ["train.steps=12", *settings]
        lab = subprocess.run([HOSTLAB, "--hosts", str(hosts), "--workers", str(workers), "--timeout", "100", "--env",
                              "OMP_NUM_THREADS=1", "--", *train(*settings, out=self.run_folder("hosts"))],
                             capture_output=True, text=True)
        self.assertEqual(lab.returncode, 0, lab.stdout + lab.stderr)
        here = subprocess.run(train(*settings, f"world.workers={hosts * workers}", f"world.nodes={hosts}x{workers}",
                                    out=self.run_folder("here")), capture_output=True, text=True, timeout=100)
        self.assertEqual(here.returncode, 0, here.stderr)
        hosts_run, here_run = self.summary("hosts"), self.summary("here")
        self.assertEqual(hosts_run["nodes"], ",".join([str(workers)] * hosts))
        self.assertAlmostEqual(hosts_run["validation_loss"] / here_run["validation_loss"], 1, delta=1e-5)
        self.assertAlmostEqual(hosts_run["consensus_distance"], here_run["consensus_distance"], delta=1e-4)

    def test_pairs_of_workers_on_two_hosts(self):
        self.compare(2, 2)

    def test_a_worker_on_each_of_four_hosts_with_a_rounded_wire(self):
        self.compare(4, 1, "wire.type=bf16")

    def test_a_worker_on_each_of_four_hosts_on_eight_bits(self):
        self.compare(4, 1, "wire.type=int8")

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
        measured = statistics.median(step["seconds"] for step in steps)
        self.assertGreater(measured, 0.8 * travel)
        self.assertLess(measured, 1.5 * travel)  # one after the other would be 2


class Loss(TrainTest):
    """Worker 2, alone on its host, is lost in the middle of an endless run of three."""

    def start(self, order, *settings):
        lab = subprocess.Popen([HOSTLAB, "--hosts", "3", "--timeout", "100", "--keep-going", "--env", "OMP_NUM_THREADS=1",
                                "--when", "step 20/", order, "2", "--",
                                *train("train.steps=1000000", *settings, out=self.run_folder("run"))],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, lab)
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

    def await_steps(self, lab, steps):
        """Until so many more have been made."""
        until = None
        for line in lab.stdout:
            if found := re.search(r"step (\d+)/", line):
                until = until or int(found[1]) + steps
                if int(found[1]) >= until:
                    return
        self.fail("the lab ended before the run had gone on for long")

    def test_of_a_killed_host_ends_the_others_where_that_is_asked(self):
        lab = self.start("kill", "world.on_lost=fail")
        self.await_lines(lab, "kill host2")
        self.assertLess(self.await_lines(lab, "worker 2 is gone", "worker 1 on host1 ended with exit code 1",
                                         "worker 0 on host0 ended with exit code 1"), 20)
        self.assertEqual(lab.wait(timeout=20), 1)

    def test_of_a_killed_host_is_survived(self):
        lab = self.start("kill")
        self.await_lines(lab, "kill host2")
        self.assertLess(self.await_lines(lab, "worker 2 is gone: 2 workers go on (view 1)"), 10)
        self.await_steps(lab, 1000)

    def test_of_a_link_is_survived_by_the_side_that_has_the_store(self):
        lab = self.start("down")
        self.await_lines(lab, "down host2")
        # Both sides of the cut.
        notices = ["worker 2 is out of reach", "worker 0 is out of reach"]
        endings = ["worker 2 on host2 ended with exit code 1", "worker 2 is gone: 2 workers go on (view 1)"]
        times = self.times_of(lab, *notices, *endings)
        noticed = max(times[text] for text in notices)
        self.assertLess(noticed, 15)
        self.assertLess(max(times[text] for text in endings) - noticed, 5)
        self.await_steps(lab, 1000)


class Parts(TrainTest):
    """Three hosts that share no run folder: each has a folder of its own mounted over it."""

    # The first worker of a host mounts, the others wait until it has.
    MOUNT = """
        if [ "$LOCAL_RANK" = 0 ]; then mount --bind "$DISKS/$HOSTLAB_HOST" "$DISKS/runs"; fi
        until [ -e "$DISKS/runs/mounted" ]; do sleep 0.05; done
        exec "$@"
    """

    def setUp(self):
        super().setUp()
        for name in ["runs", "0", "1", "2"]:
            os.mkdir(self.run_folder(name))
            if name != "runs":
                open(self.disk(name, "mounted"), "w", encoding="ascii").close()

    def disk(self, host, *path):
        return os.path.join(self.folder, str(host), *path)

    def command(self, workers, *command, order=()):
        return [HOSTLAB, "--hosts", "3", "--workers", str(workers), "--timeout", "100", "--keep-going", *order, "--env",
                "OMP_NUM_THREADS=1", "--env", f"DISKS={self.folder}", "--", "sh", "-c", self.MOUNT, "sh", *command]

    def lab(self, workers, *command, order=()):
        return subprocess.run(self.command(workers, *command, order=order), capture_output=True, text=True)

    def run_path(self):
        return self.disk("runs", "run")

    def resume(self, workers, *settings):
        command = [KITH, "train", "--resume", self.run_path()]
        for setting in settings:
            command += ["--set", setting]
        return self.lab(workers, *command)

    def bytes_of(self, *path):
        with open(self.disk(*path), "rb") as file:
            return file.read()

    def manifests(self):
        found = []
        for host in range(3):
            folder = self.disk(host, "run", "checkpoints")
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if os.path.exists(os.path.join(folder, name, "manifest.json")):
                    found.append(int(name.split("-")[1]))
        return found

    def test_train_and_resume_with_the_same_and_with_other_workers(self):
        settings = ["rate.curve=constant", "checkpoint.every=4"]
        self.lab(1, *train("train.steps=1000000", *settings, out=self.run_path()),
                 order=[word for host in "210" for word in ["--when", "step 9/", "kill", host]])
        newest = max(self.manifests())
        resumed = self.resume(1, f"train.steps={newest + 4}")
        self.assertEqual(resumed.returncode, 0, resumed.stdout + resumed.stderr)
        self.assertIn("the run is in 3 parts", resumed.stdout)

        whole = self.lab(1, *train(f"train.steps={newest + 4}", *settings, out=self.disk("runs", "whole")))
        self.assertEqual(whole.returncode, 0, whole.stdout + whole.stderr)
        self.assertEqual(self.bytes_of(0, "run", "model.safetensors"), self.bytes_of(0, "whole", "model.safetensors"))
        for worker in range(3):
            self.assertIn(b'"ending":"finished"', self.bytes_of(0, "run", f"worker-{worker}", "metrics.jsonl"))
            names = sorted(os.listdir(self.disk(worker, "whole", "checkpoints", f"ckpt-{newest + 4:08}")))
            self.assertEqual(names, ["manifest.json", f"worker-{worker}.safetensors"])
        report = subprocess.run([KITH, "report", self.disk(0, "run")], capture_output=True, text=True)
        self.assertEqual(report.returncode, 0, report.stderr)
        with open(self.disk(0, "run", "report.html"), encoding="utf-8") as file:
            self.assertIn("host2", file.read())

        more = self.resume(2, "world.workers=6", f"train.steps={newest + 20}")
        self.assertEqual(more.returncode, 0, more.stdout + more.stderr)
        self.assertIn("saved by 3 workers, goes on with 6", more.stdout + more.stderr)
        self.assertTrue(os.path.exists(self.disk(0, "run", "worker-5", "metrics.jsonl")))

        # A disk is lost: all refuse, and say what is missing.
        shutil.rmtree(self.disk(2, "run"))
        lost = self.resume(2, f"train.steps={newest + 30}")
        self.assertEqual(lost.returncode, 2, lost.stdout + lost.stderr)
        self.assertIn("worker-4.safetensors is on no machine of this run; it was saved on host2", lost.stdout + lost.stderr)

    def test_a_host_that_died_comes_back_with_its_old_part(self):
        command = self.command(1, *train("train.steps=1000000", "checkpoint.every=20", out=self.run_path()),
                               order=["--when", "  saved ", "kill", "2"])
        lab = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen, output = 0, []
        wanted = ["kill host2", "worker 2 is gone: 2 workers go on (view 1)", "  saved "]
        try:
            for line in lab.stdout:
                output.append(line)
                if wanted[seen] in line:
                    seen += 1
                if seen == len(wanted):
                    break
        finally:
            self.end(lab)
        self.assertEqual(seen, 3, "".join(output))
        newest = max(self.manifests())
        resumed = self.resume(1, f"train.steps={newest + 10}")
        self.assertEqual(resumed.returncode, 0, resumed.stdout + resumed.stderr)
        self.assertIn("saved by 2 workers, goes on with 3", resumed.stdout + resumed.stderr)
        with open(self.disk(0, "run", "summary.json"), encoding="ascii") as file:
            self.assertEqual(json.load(file)["steps"], newest + 10)


if __name__ == "__main__":
    unittest.main()
