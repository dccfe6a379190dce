#!/usr/bin/env python3
"""kith watch, report and compare as a person sees them: in a real browser.

    tests/observe/page_test.py KITH CHROMIUM [--pictures FOLDER]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402
from synthetic import Run  # noqa: E402

KITH = CHROMIUM = PICTURES = None


def last_step(run, worker):
    with open(run.path(worker), encoding="ascii") as file:
        return [line for line in map(json.loads, file) if line["kind"] == "step"][-1]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser(CHROMIUM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kith-page-test")
        self.watcher = None
        self.browser.errors.clear()

    def tearDown(self):
        if self.watcher:
            self.watcher.terminate()
            self.watcher.communicate(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def watch(self, run, *flags):
        self.watcher = subprocess.Popen([KITH, "watch", run.folder, *flags], stdout=subprocess.PIPE, text=True)
        return self.watcher.stdout.readline().strip()

    def kith(self, *words):
        return subprocess.run([KITH, *words], check=True, capture_output=True, text=True, timeout=60, cwd=self.folder).stdout

    def value(self, selector, attribute="data-value"):
        return float(self.browser.js(f"document.querySelector({json.dumps(selector)}).getAttribute('{attribute}')"))

    def picture(self, name, height=1000, scroll=0):
        if not PICTURES:
            return
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=height, deviceScaleFactor=0.65, mobile=False)
        self.browser.js(f"window.scrollTo(0, {scroll})")
        self.browser.screenshot(os.path.join(PICTURES, name + ".png"))
        self.browser.call("Emulation.clearDeviceMetricsOverride")

    def test_values_are_those_of_the_metrics_through_a_death_and_a_resume(self):
        run = Run(os.path.join(self.folder, "run"), workers=4)
        run.steps(50)
        self.browser.open(self.watch(run))
        self.browser.wait("document.querySelector('#step')?.dataset.value === '50'")
        for worker in range(4):
            line, row = last_step(run, worker), f"tr[data-worker='{worker}'] "
            self.assertEqual(self.value(row + "td[data-key=step]"), 50)
            self.assertEqual(self.value(row + "td[data-key=loss]"), line["loss"])
            self.assertEqual(self.value(row + "td[data-key=consensus]"), line["consensus"])
        mean = sum(last_step(run, w)["loss"] for w in range(4)) / 4
        self.assertAlmostEqual(self.value("#loss"), mean, places=12)
        self.assertEqual(self.value("#validation"), 2.5)
        self.assertEqual(self.value("#slowest", "data-worker"), 3, "the slow one is named")
        self.assertGreater(self.value("#slowest", "data-share"), 0.1)
        edges = self.browser.js("[...document.querySelectorAll('#round path')].map((p) => p.dataset.edge).sort().join(' ')")
        self.assertEqual(edges, " ".join(f"{i}-{run.peer_of(i, 50)}" for i in range(4)))
        # The page stays open through all that follows.
        run.kill(2)
        run.steps(10)
        self.browser.wait("document.querySelector('#step')?.dataset.value === '60'")
        self.browser.wait("document.querySelector(\"tr[data-worker='2'] td.lost\") !== null")
        self.assertIn("found worker 2 gone", self.browser.js("document.querySelector('#events').innerText"))
        run.resume(40)
        self.browser.wait("document.querySelector('#step')?.dataset.value === '40'")
        run.steps(1)
        self.browser.wait("document.querySelector('#step')?.dataset.value === '41'")
        self.assertEqual(self.value("tr[data-worker='2'] td[data-key=starts]"), 2)
        self.assertIsNone(self.browser.js("document.querySelector('td.lost')"))
        run.end()
        self.browser.wait("document.querySelector('h1').innerText.includes('(over)')")
        self.assertEqual(self.browser.errors, [])
        self.watcher.terminate()
        self.browser.wait("document.querySelector('#trouble') !== null")

    def test_a_stranger_sees_nothing(self):
        run = Run(os.path.join(self.folder, "run"))
        run.steps(1)
        address = self.watch(run)
        plain = address.split("?")[0]
        self.assertTrue(plain.startswith("http://127.0.0.1:"))
        for path in ("", "data", "metrics", "?token=" + "0" * 64, "nothing"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(plain + path, timeout=10)
            self.assertEqual(refused.exception.code, 403)
            refused.exception.close()
        request = urllib.request.Request(plain + "metrics", headers={"Authorization": "Bearer " + address.split("token=")[1]})
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
        self.assertIn('kith_worker_step{run="run",worker="0"} 1\n', text)

    def test_sixty_four_workers_stay_readable(self):
        run = Run(os.path.join(self.folder, "sixty-four"), workers=64)
        run.steps(40)
        self.browser.open(self.watch(run, "--open"))
        self.browser.wait("document.querySelectorAll('#workers tbody tr').length === 64")
        self.assertEqual(self.value("#slowest", "data-worker"), 63)
        self.assertLessEqual(self.browser.js("document.documentElement.scrollWidth"), 1280, "nothing runs out of the page")
        self.assertGreaterEqual(self.browser.js("document.querySelector('#waits').clientWidth") / 64, 7, "cells that can be pointed at")
        self.assertEqual(self.browser.js("document.querySelectorAll('#round circle').length"), 64)
        self.assertEqual(self.browser.errors, [])
        self.picture("watch", height=1800)

    def test_a_report_and_a_comparison_need_nothing_but_themselves(self):
        run = Run(os.path.join(self.folder, "a"), workers=4)
        run.steps(60)
        run.resume(50)
        run.steps(10)
        run.slow = 20
        run.steps(1)
        run.slow = 3
        run.steps(30)
        run.end()
        said = self.kith("report", run.folder)
        file = os.path.join(run.folder, "report.html")
        self.assertEqual(said, f"report: {file}\n")
        self.browser.open("file://" + file)
        self.browser.wait("document.querySelector('#workers') !== null")
        text = self.browser.js("document.body.innerText")
        self.assertRegex(text, r"Step 6[1-4] took worker [0-3] \d+.\d ms, [5-9]")
        self.assertIn("4 workers went on", text)
        self.assertIn('name = "gpt"', text)
        self.picture("report", height=1000, scroll=1950)
        other = Run(os.path.join(self.folder, "b"), workers=4, slow=1)
        other.steps(91)
        other.end()
        self.assertIn("91", self.kith("compare", run.folder, other.folder, "--out", "both.html"))
        self.browser.open("file://" + os.path.join(self.folder, "both.html"))
        self.browser.wait("document.querySelectorAll('#ends tr').length === 10")
        self.browser.js("document.querySelector('button[data-axis=bytes]').click()")
        self.assertIn("bytes read by all workers", self.browser.js("document.body.textContent"))
        self.picture("compare")
        self.assertEqual(self.browser.errors, [])


if __name__ == "__main__":
    KITH, CHROMIUM = os.path.abspath(sys.argv[1]), sys.argv[2]
    if sys.argv[3:4] == ["--pictures"]:
        PICTURES = sys.argv[4]
        os.makedirs(PICTURES, exist_ok=True)
    unittest.main(argv=[sys.argv[0]])
