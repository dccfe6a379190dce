"""examples/python, as they stand, on two workers."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from support import DEVICE, environment_of, main

SOURCE = os.environ.get("KITH_TEST_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Examples(unittest.TestCase):
    def run_example(self, name, *arguments, workers=2):
        """What worker 0 printed."""
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            processes = [
                subprocess.Popen(
                    [sys.executable, os.path.join(SOURCE, "examples", "python", name), "--device", str(DEVICE), *arguments],
                    env={**os.environ, "OMP_NUM_THREADS": "1", **environment_of(w, workers, os.path.join(folder, "store"))},
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=folder,
                )
                for w in range(workers)
            ]
            try:
                told = [process.communicate(timeout=120)[0] for process in processes]
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
            self.assertEqual([process.returncode for process in processes], [0] * workers)
            return told[0]

    def test_gpt(self):
        told = self.run_example("gpt.py", "--steps", "60", "--width", "32", "--layers", "1", "--context", "32")
        held_out = float(re.search(r"held-out loss of the mean model: ([0-9.]+)", told).group(1))
        self.assertLess(held_out, 3.6)  # bytes at random: 5.5

    def test_mnist(self):
        told = self.run_example("mnist.py", "--images", "640", "--epochs", "2")
        accuracy = float(re.search(r"epoch 1: accuracy of the mean model ([0-9.]+) %", told).group(1))
        self.assertGreater(accuracy, 60)  # guessing: 10

    def test_trainer_resumes_bit_for_bit(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            whole = self.run_example("trainer.py", "--output", os.path.join(folder, "a"), "--steps", "100")
            self.run_example("trainer.py", "--output", os.path.join(folder, "b"), "--steps", "50")
            resumed = self.run_example("trainer.py", "--output", os.path.join(folder, "b"), "--steps", "100", "--resume")
        last = whole.splitlines()[-1]
        self.assertRegex(last, r"^step 100: eval_loss 0\.")
        self.assertEqual(resumed.splitlines()[-1], last)


if __name__ == "__main__":
    main()
