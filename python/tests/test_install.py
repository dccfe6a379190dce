"""Both ways to install the front, each into an empty folder: `pip install .` without a network, and `cmake --install`.

KITH_TEST_SOURCE and KITH_TEST_BUILD name the tree and a build folder of it.
"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

from support import main

SOURCE = os.environ.get("KITH_TEST_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("KITH_TEST_BUILD") or os.path.join(SOURCE, "build", "release")

SCRIPT = """
import sys, torch, kith
assert kith.__file__.startswith(sys.argv[1]), kith.__file__
world = kith.init(device="cpu")
net = torch.nn.Linear(2, 1)
opt = kith.optim.AdamW(net.parameters())
model = kith.DecentralizedDataParallel(net, opt)
model(torch.ones(1, 2)).sum().backward()
opt.step()
print("trained", model.steps, kith.__version__)
"""


class Install(unittest.TestCase):
    def trains(self, folder):
        told = subprocess.run(
            [sys.executable, "-c", SCRIPT, folder],
            env={**os.environ, "PYTHONPATH": folder},
            cwd="/",
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertRegex(told.stdout, r"^trained 1 \d+\.\d+\.\d+\n$")

    def test_pip_downloads_nothing(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            target = os.path.join(folder, "packages")
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--root-user-action=ignore",
                 "--quiet", "--target", target, SOURCE],
                # How fast it is does not matter here; it is compiled in two thirds of the time.
                env={**os.environ, "KITH_WHEEL_BUILD": BUILD + "-wheel", "PYTHONPATH": "", "CMAKE_ARGS": "-DCMAKE_CXX_FLAGS_RELEASE=-O1"},
                check=True,
            )
            self.assertTrue(glob.glob(os.path.join(target, "kith-*.dist-info", "RECORD")))
            self.assertTrue(os.path.exists(os.path.join(target, "kith", "py.typed")))
            self.trains(target)

    def test_cmake_installs_the_component(self):
        with tempfile.TemporaryDirectory(prefix="kith-test-") as folder:
            subprocess.run(
                ["cmake", "--install", BUILD, "--component", "python", "--prefix", folder], check=True, stdout=subprocess.DEVNULL
            )
            found = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))
            self.assertEqual(len(found), 1)
            self.trains(found[0])


if __name__ == "__main__":
    main()
