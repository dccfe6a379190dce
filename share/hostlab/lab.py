"""A lab in one run: hosts, wires, workers, orders, and one loop that waits for whatever happens next."""
import os
import selectors
import signal
import sys
import time

import kernel
import network
from host import Host, Worker

GRACE_SECONDS = 5.0  # between asking workers to end and killing them
MASTER_PORT = 29500


class Refused(Exception):
    """What was asked for cannot be had here."""


def check_order(words, hosts):
    """ValueError unless the words are an order: down H, up H, kill H, rate RATE [H], bytes."""
    verb = words[0] if words else ""
    counts = {"down": (2,), "up": (2,), "kill": (2,), "rate": (2, 3), "bytes": (1,)}
    if verb not in counts or len(words) not in counts[verb]:
        raise ValueError(f"'{' '.join(words)}' is not an order: down H, up H, kill H, rate RATE [H], bytes")
    if verb == "rate":
        network.parse_rate(words[1])
    for host in words[2:] if verb == "rate" else words[1:]:
        if not host.isdigit() or int(host) >= hosts:
            raise ValueError(f"'{host}' is not a host: there are 0 to {hosts - 1}")


def _own_network():
    try:
        kernel.own_network()
    except OSError as error:
        raise Refused(f"this machine lets only root make hosts ({kernel.why_no_users() or error}): run it with sudo") from error
    kernel.show_network([])


class Lines:
    """Puts a stream of bytes into lines."""

    def __init__(self):
        self._rest = b""

    def add(self, chunk):
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def end(self):
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class Lab:
    """One run; run() returns the exit code."""

    def __init__(self, options):
        self.options = options
        self.names = [f"host{h}" for h in range(options.hosts)]
        self.hosts = []
        self.selector = selectors.DefaultSelector()
        self.begin = time.monotonic()
        self.code = 0  # of the first failure
        self.stopping_since = None
        self.timers = sorted(([float(s), order, host] for s, order, host in options.after), key=lambda t: t[0])
        self.triggers = [[text.encode(), order, host] for text, order, host in options.when]
        self.pending = {}  # rank: host, while its exit is not known
        self.serving = not options.command
        self.logs = {}

    def run(self):
        self._catch_signals()
        # The lab's own namespace is the switch: it goes with this process.
        _own_network()
        network.make_switch()
        if self.options.latency and not network.has_netem():
            raise Refused("this kernel has no netem, so there is no --latency to be had: leave it out")
        try:
            for index in range(self.options.hosts):
                self.hosts.append(Host(index, self.names, self._workers_of(index)))
            for host in self.hosts:
                network.plug(host.index, host.pid)
                network.shape(host.index, host.pid, self.options.rate, self.options.latency)
            self._watch()
            for host in self.hosts:
                host.start_workers()
            if self.serving:
                self._say("".join(f"host {h.index} {network.address(h.index)} {h.pid}\n" for h in self.hosts) + "ready\n")
            self.begin = time.monotonic()
            while self.serving or self.pending:
                self._turn()
        finally:
            for host in self.hosts:
                host.kill()
        self._drain()
        return self.code

    # What the workers see.
    def _workers_of(self, index):
        options = self.options
        if not options.command:
            return []
        if options.logs:
            os.makedirs(options.logs, exist_ok=True)
        workers = []
        for local in range(options.workers):
            rank = index * options.workers + local
            environment = dict(os.environ)
            environment.update({
                "RANK": str(rank), "WORLD_SIZE": str(options.hosts * options.workers), "LOCAL_RANK": str(local),
                "LOCAL_WORLD_SIZE": str(options.workers), "GROUP_RANK": str(index),
                "MASTER_ADDR": network.address(0), "MASTER_PORT": str(MASTER_PORT), "HOSTNAME": self.names[index],
                "KITH_INTERFACE": network.INTERFACE, "GLOO_SOCKET_IFNAME": network.INTERFACE,
                "UCX_NET_DEVICES": network.INTERFACE, "HOSTLAB_HOST": str(index),
                "HOSTLAB_ADDRESS": network.address(index), "HOSTLAB_PID": str(os.getpid())})
            environment.update(entry.split("=", 1) for entry in options.env)
            workers.append(Worker(rank, options.command, environment))
            if options.logs:
                self.logs[rank] = open(os.path.join(options.logs, f"worker-{rank}.log"), "wb", buffering=0)
        return workers

    def _catch_signals(self):
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # the loop reads the number from the pipe

    def _watch(self):
        register = lambda fd, act: self.selector.register(fd, selectors.EVENT_READ, act)
        register(self.wake_read, self._on_signals)
        for host in self.hosts:
            register(host.report, lambda h=host, lines=Lines(): self._on_report(h, lines))
            for worker in host.workers:
                self.pending[worker.rank] = host
                register(worker.output, lambda w=worker, h=host, lines=Lines(): self._on_output(w, h, lines))
        if self.serving or self.options.control:
            register(0, lambda lines=Lines(): self._on_orders(lines))

    # What happens.
    def _turn(self):
        for key, _ in self.selector.select(self._patience()):
            key.data()
        now = time.monotonic() - self.begin
        while self.timers and self.timers[0][0] <= now:
            self._obey(self.timers.pop(0)[1:])
        if self.options.timeout and now >= self.options.timeout and self.pending and not self.stopping_since:
            self._note(f"out of time: {self._missing()} still run after {self.options.timeout:g} s")
            self._fail(124)
            self._stop(signal.SIGTERM)
        if self.stopping_since and time.monotonic() >= self.stopping_since + GRACE_SECONDS:
            self._end_now()

    def _patience(self):
        moments = [self.begin + self.timers[0][0]] if self.timers else []
        if self.stopping_since:
            moments.append(self.stopping_since + GRACE_SECONDS)
        elif self.options.timeout:
            moments.append(self.begin + self.options.timeout)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _on_signals(self):
        for number in os.read(self.wake_read, 64):
            if number not in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                continue
            self._fail(128 + number)
            if self.stopping_since or self.serving:
                self._end_now()
            else:
                self._note(f"{signal.Signals(number).name}: ending the workers (again to kill them)")
                self._stop(number if number != signal.SIGHUP else signal.SIGTERM)

    def _on_report(self, host, lines):
        chunk = os.read(host.report, 4096)
        if not chunk:
            self.selector.unregister(host.report)
            self._host_gone(host)
        for line in lines.add(chunk):
            _, rank, code = line.decode().split()
            self.pending.pop(int(rank), None)
            if int(code) != 0 and not self.stopping_since:
                self._note(f"worker {rank} on {host.name} ended with exit code {code}")
                self._fail(int(code))
                if not self.options.keep_going:
                    self._stop(signal.SIGTERM)

    def _host_gone(self, host):
        if host.alive:
            host.kill()
            self._note(f"{host.name} died")
            self._forget(host)
            self._fail(137)
            if not self.options.keep_going and not self.stopping_since:
                self._stop(signal.SIGTERM)

    def _on_output(self, worker, host, lines):
        chunk = os.read(worker.output, 65536)
        if not chunk:
            self.selector.unregister(worker.output)
        for line in lines.add(chunk) if chunk else lines.end():
            if worker.rank in self.logs:
                self.logs[worker.rank].write(line + b"\n")
            else:
                self._say(b"[%d@%s] %s\n" % (worker.rank, host.name.encode(), line))
            for trigger in [t for t in self.triggers if t[0] in line]:
                self.triggers.remove(trigger)
                self._obey(trigger[1:])

    def _on_orders(self, lines):
        chunk = os.read(0, 4096)
        if not chunk:
            self.selector.unregister(0)
            if self.serving:
                self._end_now()
        for line in lines.add(chunk):
            words = line.decode().split()
            try:
                check_order(words, self.options.hosts)
                self._say(self._obey(words) + "\n")
            except (ValueError, RuntimeError) as error:
                self._say(f"error {error}\n")

    # What the lab does.
    def _obey(self, words):
        """Carries out an order and returns the answer."""
        verb, *rest = words
        if verb == "bytes":
            counted = network.counters()
            return " ".join(["bytes", *(f"{counted.get(h.index, (0, 0))[0]} {counted.get(h.index, (0, 0))[1]}"
                                        for h in self.hosts)])
        if verb == "rate":
            bits = network.parse_rate(rest[0])
            for host in [self.hosts[int(rest[1])]] if len(rest) > 1 else self.hosts:
                if host.alive:
                    network.shape(host.index, host.pid, bits, self.options.latency)
            return "ok"
        host = self.hosts[int(rest[0])]
        self._note(f"{time.monotonic() - self.begin:.2f} s: {verb} {host.name}")
        if verb == "kill":
            host.kill()
            self._forget(host)
        else:
            network.set_link(host.index, verb == "up")
        return "ok"

    def _forget(self, host):
        self.pending = {rank: where for rank, where in self.pending.items() if where is not host}

    def _stop(self, number):
        self.stopping_since = time.monotonic()
        for host in self.hosts:
            host.signal(number)

    def _end_now(self):
        self.serving = False
        self.pending = {}

    def _fail(self, code):
        self.code = self.code or code

    def _drain(self):
        """Every writer is dead: what is left in the pipes is little, and ends."""
        for worker in [worker for host in self.hosts for worker in host.workers]:
            while worker.output in self.selector.get_map():
                self.selector.get_map()[worker.output].data()

    def _missing(self):
        return "workers " + ", ".join(f"{rank} on {host.name}" for rank, host in sorted(self.pending.items()))

    def _note(self, text):
        print(f"hostlab: {text}", file=sys.stderr, flush=True)

    def _say(self, text):
        sys.stdout.buffer.write(text.encode() if isinstance(text, str) else text)
        sys.stdout.buffer.flush()
