"""kith launch --elastic on the hosts of a lab: `elastic_test.py KITH` runs the tests with that program."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import runs  # noqa: E402

LAB = os.path.join(ROOT, "share/hostlab")
KITH = sys.argv.pop(1)
JOB = [*runs.TINY, "train.steps=100000000", "checkpoint.every=50"]


class Elastic(unittest.TestCase):
    """Two hosts with two workers each."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kith-hostlab-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.lab = subprocess.Popen([os.path.join(LAB, "hostlab"), "--hosts", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end_lab)
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            for line in iter(self.lab.stdout.readline, "ready\n"):
                file.write(line)

    def end_lab(self):
        self.lab.stdin.close()
        self.lab.stdout.close()
        self.lab.wait()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def on(self, host, command):
        return subprocess.run([f"{LAB}/ssh", self.path("hosts"), f"host{host}", command], capture_output=True, text=True, timeout=60)

    def launch(self, out, elastic="2:4"):
        command = [KITH, "launch", "--hosts", "10.77.0.1:2,10.77.0.2:2", "--ssh", f"{LAB}/ssh {self.path('hosts')}", "--elastic", elastic,
                   "--env", "OMP_NUM_THREADS=1", "--env", "KITH_INTERFACE=eth0", "--env", "UCX_NET_DEVICES=eth0",
                   "--", KITH, "train", "--out", out, *runs.settings(JOB)]
        run = runs.Run(command, out, self.path("log"))
        self.addCleanup(run.__exit__)
        return run

    def steps(self, folder, worker):
        metrics = os.path.join(folder, f"worker-{worker}", "metrics.jsonl")
        return runs.last_step(metrics) if os.path.exists(metrics) else 0

    def eventually(self, run, holds):
        end = time.monotonic() + 60
        while not holds():
            self.assertTrue(run.running() and time.monotonic() < end, run.everything())
            time.sleep(0.02)

    def replace(self, run, worker, newcomer, folder):
        """Kills a worker; until the newcomer that takes its place has made steps. `folder`: of the run, as that host sees it."""
        self.eventually(run, lambda: self.steps(folder, worker) > 20)
        os.kill(run.workers()[worker], signal.SIGKILL)
        self.eventually(run, lambda: self.steps(folder, newcomer) > 0)
        first = self.steps(folder, newcomer)
        self.eventually(run, lambda: self.steps(folder, newcomer) > first + 20)

    def stop(self, run, folder):
        """In order; summary.json."""
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(60), 130, run.everything())
        with open(os.path.join(folder, "summary.json"), encoding="ascii") as file:
            return json.load(file)

    def test_newcomers_come_for_killed_workers_one_after_the_other(self):
        out = self.path("run")
        run = self.launch(out)
        self.replace(run, 3, 4, out)
        self.replace(run, 0, 5, out)
        self.assertIn("worker 4 comes for worker 3", run.everything())
        told = self.stop(run, out)
        self.assertEqual([entry["worker"] for entry in told["lost"]], [3, 0])
        self.assertEqual([entry["worker"] for entry in told["joined"]], [4, 5])

    def test_newcomers_for_a_machine_that_is_gone_come_to_the_others(self):
        out = self.path("run")
        run = self.launch(out)
        self.eventually(run, lambda: min(self.steps(out, worker) for worker in range(4)) > 20)
        self.lab.stdin.write("kill 1\n")
        self.lab.stdin.flush()
        self.eventually(run, lambda: self.steps(out, 4) > 0 and self.steps(out, 5) > 0)
        network = lambda worker: os.readlink(f"/proc/{run.workers()[worker]}/ns/net")
        self.assertEqual({network(4), network(5)}, {network(0)})
        told = self.stop(run, out)
        self.assertEqual(sorted(entry["worker"] for entry in told["lost"]), [2, 3])
        self.assertEqual(sorted(entry["worker"] for entry in told["joined"]), [4, 5])

    def test_two_come_at_once(self):
        out = self.path("run")
        run = self.launch(out)
        self.eventually(run, lambda: min(self.steps(out, worker) for worker in range(4)) > 20)
        for worker in (1, 2):
            os.kill(run.workers()[worker], signal.SIGKILL)
        self.eventually(run, lambda: self.steps(out, 4) > 0 and self.steps(out, 5) > 0)
        told = self.stop(run, out)
        self.assertEqual(sorted(entry["worker"] for entry in told["joined"]), [4, 5])

    def test_the_job_is_scaled_on_the_machine_of_worker_0(self):
        out = self.path("run")
        run = self.launch(out, elastic="2:6")
        self.eventually(run, lambda: self.steps(out, 0) > 20)
        more = self.on(0, f"{KITH} scale {out} 5")
        self.assertEqual((more.returncode, more.stdout), (0, "5 workers are wanted: worker 4 comes\n"), more.stderr)
        self.eventually(run, lambda: self.steps(out, 4) > 0)
        fewer = self.on(0, f"{KITH} scale {out} 3")
        self.assertEqual((fewer.returncode, fewer.stdout), (0, "3 workers are wanted: worker 4, worker 3 leave\n"), fewer.stderr)
        self.eventually(run, lambda: "worker 3 has left" in run.everything() and "worker 4 has left" in run.everything())
        then = self.steps(out, 0)
        self.eventually(run, lambda: self.steps(out, 0) > then + 20)
        told = self.stop(run, out)
        self.assertEqual(told["lost"], [])
        self.assertEqual(sorted(entry["worker"] for entry in told["left"]), [3, 4])

    def test_hosts_need_not_share_a_disk(self):
        os.mkdir(self.path("runs"))
        for host in (0, 1):
            os.mkdir(self.path(f"disk{host}"))
            self.assertEqual(self.on(host, f"mount --bind {self.path(f'disk{host}')} {self.path('runs')}").returncode, 0)
        run = self.launch(self.path("runs", "run"))
        self.replace(run, 2, 4, self.path("disk1", "run"))
        self.eventually(run, lambda: run.everything().count("  saved ") >= 2)
        told = self.stop(run, self.path("disk0", "run"))
        self.assertEqual([entry["worker"] for entry in told["joined"]], [4])
        # At the end all is where worker 0 is.
        for worker in (2, 3, 4):
            self.assertTrue(os.path.exists(self.path("disk0", "run", f"worker-{worker}", "metrics.jsonl")), run.everything())
        self.assertFalse(os.path.exists(self.path("runs", "run")))


if __name__ == "__main__":
    unittest.main()
