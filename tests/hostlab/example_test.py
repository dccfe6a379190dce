"""examples/multi_host across the hosts of a lab: `example_test.py HOSTLAB MULTI_HOST`."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
MULTI_HOST = sys.argv.pop()
HOSTLAB = sys.argv.pop()


class Example(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kith-hostlab-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_on(self, hosts, workers, steps):
        lab = subprocess.run([HOSTLAB, "--hosts", str(hosts), "--workers", str(workers), "--timeout", "100", "--env", "OMP_NUM_THREADS=1",
                              "--", MULTI_HOST, str(steps), os.path.join(self.folder, "run")], capture_output=True, text=True)
        self.assertEqual(lab.returncode, 0, lab.stdout + lab.stderr)
        return lab.stdout

    def test_pairs_on_two_hosts_find_their_nodes_and_go_on(self):
        self.assertIn("4 workers on nodes of 2,2, from step 0", self.run_on(2, 2, 50))
        again = self.run_on(2, 2, 60)
        self.assertIn("from step 50", again)
        self.assertIn("of 1000 held-out points are right", again)


if __name__ == "__main__":
    unittest.main()
