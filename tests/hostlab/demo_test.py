"""kith demo, as an ordinary user runs it: `demo_test.py KITH CLASS` runs one class of tests with that program."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.dont_write_bytecode = True
KITH = sys.argv.pop(1)
SHARE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))), "share")
TINY = ["--set", "model.layers=1", "--set", "model.width=64", "--set", "model.heads=2", "--set", "model.context=16",
        "--set", "rate.warmup=2", "--set", "train.eval_samples=32"]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(prefix="kith-demo-")  # as if installed there: nobody may not see the tree
        cls.addClassCleanup(shutil.rmtree, cls.prefix)
        os.chmod(cls.prefix, 0o755)
        os.mkdir(os.path.join(cls.prefix, "bin"))
        cls.kith = shutil.copy(KITH, os.path.join(cls.prefix, "bin"))
        shutil.copy(KITH + "-training", os.path.join(cls.prefix, "bin"))
        shutil.copytree(SHARE, os.path.join(cls.prefix, "share/kith"))

    def setUp(self):
        self.mark = f"DEMO_TEST={uuid.uuid4().hex}"
        self.folder = tempfile.mkdtemp(prefix="kith-demo-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)
        self.out = os.path.join(self.folder, "run")

    def start(self, *arguments, seconds="2", user=NOBODY):
        name, value = self.mark.split("=")
        demo = subprocess.Popen([*user, self.kith, "demo", "--out", self.out, "--seconds", seconds, *TINY, *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
                                env={**os.environ, name: value})
        self.addCleanup(demo.kill)
        return demo

    def finish(self, demo):
        text, _ = demo.communicate(timeout=100)
        self.assertEqual(demo.returncode, 0, text)
        return text

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                    if self.mark in file.read().split("\0"):
                        found.append(pid)
            except OSError:
                pass  # it has ended, or is somebody else's
        return found

    def numbers(self):
        with open(os.path.join(self.out, "demo.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_gives_both_the_same_time_on_the_same_link(self):
        text = self.finish(self.start("--rate", "100mbit"))
        for part in ("about 34 s in all", "4 hosts behind links of 100mbit/s", "steps done", "validation loss", "time per iteration",
                     "time spent waiting", "bytes sent", "s of training", "run folder: " + self.out, "report: " + os.path.join(self.out, "report.html")):
            self.assertIn(part, text)
        numbers = self.numbers()
        self.assertEqual(numbers["link"], {"rate": "100mbit", "bits_per_second": 1e8, "hosts": 4})
        for method in ("allreduce", "decentralised"):
            run = numbers[method]
            self.assertGreater(run["steps"], 10)
            self.assertGreater(run["seconds"], 1)  # a busy machine's pace changes
            self.assertLess(run["seconds"], 6)
            self.assertAlmostEqual(run["seconds"] / run["steps"], run["seconds_per_iteration"], delta=1e-3)
            self.assertLess(run["waiting_share"], 1)
            self.assertLess(run["curve"][-1]["validation_loss"], run["curve"][0]["validation_loss"])
            self.assertEqual(run["curve"][-1]["validation_loss"], run["validation_loss"])
        with open(os.path.join(self.out, "demo.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read().count("<polyline"), 2)
        self.assertEqual(self.processes(), [])

    def test_an_interrupt_leaves_nothing_behind(self):
        demo = self.start(seconds="60")
        for line in demo.stdout:
            if "step 10" in line:
                break
        demo.send_signal(signal.SIGINT)
        text, _ = demo.communicate(timeout=60)
        self.assertEqual(demo.returncode, 130, text)
        self.assertFalse(os.path.exists(self.out))
        end = time.monotonic() + 10
        while self.processes():
            self.assertLess(time.monotonic(), end, f"left: {self.processes()}")
            time.sleep(0.02)

    def test_without_hosts_shares_memory_and_shows_what_was_recorded(self):
        text = self.finish(self.start(user=["unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_user_namespaces; "
                                            "exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\""]))
        self.assertIn("No hosts can be made here", text)
        self.assertIn("user.max_user_namespaces = 0", text)
        self.assertEqual(text.count("time per iteration"), 2)
        self.assertIn("4 hosts behind links of 200mbit/s, recorded", text)
        self.assertEqual(self.numbers()["link"], {"rate": None, "bits_per_second": None, "hosts": 1})

    def test_refuses_what_it_cannot_use(self):
        for arguments, seconds, message in [(["--rate", "fast"], "2", "'fast' is not a rate"), ([], "0", "--seconds"),
                                            (["--set", "model.widht=3"], "2", "model.width")]:
            demo = self.start(*arguments, seconds=seconds)
            text, _ = demo.communicate(timeout=60)
            self.assertEqual(demo.returncode, 2, text)
            self.assertIn(message, text)
            self.assertFalse(os.path.exists(self.out))


if __name__ == "__main__":
    unittest.main()
