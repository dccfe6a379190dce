"""What scripts/chaos, scripts/crash-test and scripts/soak share: a run of `kith train` as processes that can be hurt."""
import json
import os
import re
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

# A job of milliseconds a step.
TINY = ["model.layers=1", "model.heads=2", "model.width=16", "model.context=16", "train.batch=2", "train.eval_samples=8",
        "train.eval_every=0", "rate.warmup=2", "output.log_every=1"]


def find_kith(path=None):
    """The program: the path given, or that of the release build. Ends the script where there is none."""
    path = path or os.path.join(ROOT, "build/release/bin/kith")
    if not os.access(path, os.X_OK):
        raise SystemExit(f"{path} is not there: build it (make build), or name one with --kith PATH")
    return path


def settings(values):
    return [word for value in values for word in ("--set", value)]


class Printer:
    """Prints lines, and writes them into a file too, where one is given."""

    def __init__(self, path=None):
        self.file = open(path, "w", encoding="utf-8") if path else None

    def __call__(self, line):
        print(line, flush=True)
        if self.file:
            print(line, file=self.file, flush=True)


class Run:
    """`kith train ...` in a session of its own; nothing of it is left at the end. All its processes run on `cores`, where they are given."""

    def __init__(self, command, folder, log, cores=None):
        self.folder = folder
        self.log = log
        self.output = open(log, "ab")
        self.start = time.monotonic()
        self.helpers = []  # processes that belong to it and were started later
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.PIPE,
                                        start_new_session=True,
                                        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()
        for process in [self.process, *self.helpers]:
            process.wait()
        self.process.stdin.close()
        self.output.close()

    def processes(self):
        """Those that it started, and those that they did; itself left out."""
        parents = {}
        for name in os.listdir("/proc"):
            try:
                if name.isdigit():
                    with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                        parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                pass
        helpers = [process.pid for process in self.helpers]
        found, level = helpers, [self.process.pid, *helpers]
        while level:
            level = [pid for pid, parent in parents.items() if parent in level]
            found += level
        return found

    def help(self, command, environment):
        """One more process, beside those that it started itself."""
        self.helpers.append(subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                             env={**os.environ, **environment}, start_new_session=True))

    def workers(self):
        """{worker: process} of those that live."""
        found = {}
        for pid in self.processes():
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            words = dict(word.split(b"=", 1) for word in environment if b"=" in word)
            worker = words.get(b"KITH_WORKER", words.get(b"RANK"))  # of kith train, or of a launcher
            if worker is not None and state not in "ZX":
                found[int(worker)] = pid
        return found

    def steps(self):
        """{worker: the last step that it has written down}."""
        found = {}
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else []:
            metrics = os.path.join(self.folder, name, "metrics.jsonl")
            if name.startswith("worker-") and os.path.exists(metrics):
                found[int(name[7:])] = last_step(metrics)
        return found

    def step(self):
        """The farthest."""
        return max(self.steps().values(), default=0)

    def printed_step(self):
        """The last step that it has printed (output.log_every=1)."""
        with open(self.log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 2000))
            found = re.findall(rb"step (\d+)/", file.read())
        return int(found[-1]) if found else 0

    def order(self, line):
        """To what reads its standard input."""
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def running(self):
        return self.process.poll() is None

    def wait(self, seconds):
        """The exit code; None when it has not ended by then."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill_all(self):
        """As when the machine loses its power: everybody at once. Whoever is stopped dies too."""
        for pid in [self.process.pid, *self.processes()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def everything(self):
        """That was printed."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def tail(self, lines=12):
        return "\n".join(self.everything().splitlines()[-lines:])


def last_step(path):
    """Of the lines at the end of a metrics.jsonl; a line that is not whole yet does not count."""
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 4096))
        lines = file.read().split(b"\n")[:-1]
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if record.get("kind") == "step":
            return record["step"]
    return 0


class Batches:
    """Steps of all workers together, by the lines of their metrics. A worker that is gone makes none, and one that has just come draws no
    batch in its first step. Reads what is new since the last count."""

    def __init__(self, folder):
        self.folder = folder
        self.read = {}  # by file: bytes, batches

    def count(self):
        for name in os.listdir(self.folder) if os.path.isdir(self.folder) else []:
            path = os.path.join(self.folder, name, "metrics.jsonl")
            if os.path.exists(path):
                self.read[path] = self.add_new(path, *self.read.get(path, (0, 0)))
        return sum(batches for _, batches in self.read.values())

    @staticmethod
    def add_new(path, at, batches):
        with open(path, "rb") as file:
            file.seek(at)
            whole = file.read().rpartition(b"\n")[0]
        lines = [line for line in whole.split(b"\n") if line.startswith(b'{"kind":"step"')]
        return at + len(whole) + (1 if whole else 0), batches + sum(b'"loss":null' not in line for line in lines)


def summary(folder):
    """summary.json, or None."""
    try:
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def read(path):
    with open(path, "rb") as file:
        return file.read()
