"""kith train with its store in etcd, on the hosts of a lab: `etcd_test.py KITH` runs the test with that program."""
import itertools
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
HOSTS = range(3)
ADDRESSES = [f"10.77.0.{host + 1}" for host in HOSTS]
STEPS = 200
# In a star worker 0 is everybody's only neighbour: worker 1 finds out that it is gone, whether worker 2 is stopped or not.
JOB = [*runs.TINY, "topology.name=star", f"train.steps={STEPS}"]
STATUS = ("import http.client, sys; to = http.client.HTTPConnection(sys.argv[1], 2379, timeout=5); "
          "to.request('POST', '/v3/maintenance/status', '{}'); print(to.getresponse().read().decode())")


class Etcd(unittest.TestCase):
    """Three hosts, each with a member of the cluster and a worker."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="kith-hostlab-")
        self.addCleanup(shutil.rmtree, self.folder)
        # A link that sets the pace: the run is not over before the faults, however fast the machine is.
        self.lab = subprocess.Popen([os.path.join(LAB, "hostlab"), "--hosts", str(len(HOSTS)), "--rate", "10mbit"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.members = {}
        self.addCleanup(self.end_lab)
        with open(self.path("hosts"), "w", encoding="ascii") as file:
            file.writelines(itertools.takewhile(lambda line: line != "ready\n", self.lab.stdout))
        for host in HOSTS:
            self.start_member(host)

    def end_lab(self):
        """The members end with their hosts."""
        self.lab.stdin.close()
        self.lab.stdout.close()
        self.lab.wait()
        for member in self.members.values():
            member.wait()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def ssh(self, host, command):
        return [f"{LAB}/ssh", self.path("hosts"), f"host{host}", command]

    def on(self, host, command):
        return subprocess.run(self.ssh(host, command), capture_output=True, text=True, timeout=60)

    def start_member(self, host):
        """With the data that it had, where it ran before."""
        client, peer = (f"http://{ADDRESSES[host]}:{port}" for port in (2379, 2380))
        cluster = ",".join(f"m{number}=http://{address}:2380" for number, address in enumerate(ADDRESSES))
        command = (f"echo $$ > {self.path(f'm{host}.pid')}; exec etcd --name m{host} --data-dir {self.path(f'm{host}')} "
                   f"--listen-client-urls {client} --advertise-client-urls {client} "
                   f"--listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster {cluster}")
        with open(self.path("log"), "ab") as log:
            self.members[host] = subprocess.Popen(self.ssh(host, command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill_member(self, host):
        self.on(host, f"kill -KILL $(cat {self.path(f'm{host}.pid')})")
        self.members[host].wait(10)

    def status(self, host):
        """Of a member, by itself; empty when it does not answer."""
        asked = self.on(host, f'/usr/bin/python3 -c "{STATUS}" {ADDRESSES[host]}')
        return json.loads(asked.stdout) if asked.returncode == 0 else {}

    def leader(self):
        """The member that leads, and its term; None when none says that it does."""
        for host in HOSTS:
            told = self.status(host)
            if told.get("leader", "0") != "0" and told["leader"] == told["header"]["member_id"]:
                return host, int(told["raftTerm"])
        return None

    def launch(self):
        command = [KITH, "launch", "--hosts", ",".join(ADDRESSES), "--ssh", f"{LAB}/ssh {self.path('hosts')}", "--least", "2",
                   "--store", "etcd://" + ",".join(ADDRESSES),
                   "--env", "OMP_NUM_THREADS=1", "--env", "KITH_INTERFACE=eth0", "--env", "UCX_NET_DEVICES=eth0",
                   "--", KITH, "train", "--out", self.path("run"), *runs.settings(JOB)]
        run = runs.Run(command, self.path("run"), self.path("log"))
        self.addCleanup(run.__exit__)
        return run

    def eventually(self, run, find):
        """What it finds, once that is something."""
        end = time.monotonic() + 60
        while not (found := find()):
            self.assertTrue(run.running() and time.monotonic() < end, run.everything())
            time.sleep(0.02)
        return found

    def await_steps(self, run, steps):
        """Until so many more have been made."""
        until = run.step() + steps
        self.eventually(run, lambda: run.step() >= until)

    def begin_view_change(self, run):
        """Worker 0 is killed, and worker 1 calls for a view. That waits for worker 2, which is stopped. The result lets worker 2 go on."""
        workers = run.workers()
        os.kill(workers[2], signal.SIGSTOP)
        os.kill(workers[0], signal.SIGKILL)
        self.eventually(run, lambda: "view 1 waits for worker 2, which is alive" in run.everything())
        return lambda: os.kill(workers[2], signal.SIGCONT)

    def change_leader(self, run):
        """The one that leads is killed, for good; until one of the other two leads."""
        first, term = self.eventually(run, self.leader)
        self.kill_member(first)
        second, later = self.eventually(run, self.leader)
        self.assertNotEqual(first, second)
        self.assertGreater(later, term)

    def test_training_goes_on_without_a_member_and_when_the_leader_changes_during_a_view_change(self):
        run = self.launch()
        self.await_steps(run, 10)
        self.kill_member(0)  # whom every worker asks first
        self.await_steps(run, 20)
        # Two of three must be there: this one comes back before another one goes.
        self.start_member(0)
        self.eventually(run, lambda: self.status(0).get("leader", "0") != "0")

        let_it_end = self.begin_view_change(run)
        self.change_leader(run)
        self.assertNotIn("view 1, from step", run.everything())
        let_it_end()

        self.assertEqual(run.wait(60), 0, run.everything())
        told = runs.summary(run.folder)
        self.assertEqual((told["ending"], told["steps"], told["views"]), ("finished", STEPS, 2))
        # Not worker 2. It is in the view, so that was agreed on when it went on, under the new leader.
        self.assertEqual([entry["worker"] for entry in told["lost"]], [0])


if __name__ == "__main__":
    unittest.main()
