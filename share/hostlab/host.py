"""A host of a lab: a process that is the first of its own network, process, mount, name and IPC namespaces.

Nothing of a host has a name outside it, so two labs cannot collide. The kernel kills every process of a host with its first
one, and takes the namespaces and wires away with the last; the first one dies with the lab. So nothing stays behind, also
when the lab itself is killed.
"""
import os
import signal
import socket
import sys

import kernel
import network


class Worker:
    """A command to run on a host; `output` is the end of the pipe that the lab reads."""

    def __init__(self, rank, command, environment):
        self.rank, self.command, self.environment = rank, command, environment
        self.output, self.sink = os.pipe()


class Host:
    """Starts the host. `pid` is its first process, `report` a pipe with lines "exit RANK CODE"."""

    def __init__(self, index, names, workers):
        self.index, self.name, self.workers = index, names[index], workers
        self.report, report = os.pipe()
        start, self._start = os.pipe()
        self._keeper = os.fork()
        if self._keeper == 0:
            _keep(lambda: _first_process(names, self.name, workers, start, report))
        for fd in (report, start, *(worker.sink for worker in workers)):
            os.close(fd)
        self.alive = True
        self.pid = int(self._line())  # once the namespaces exist

    def _line(self):
        text = b""
        while not text.endswith(b"\n"):
            byte = os.read(self.report, 1)
            if not byte:
                raise RuntimeError(f"{self.name} did not start; its message is above")
            text += byte
        return text.decode().strip()

    def start_workers(self):
        os.write(self._start, b"s")
        os.close(self._start)

    def signal(self, number):
        """To every worker, by way of the first process."""
        if self.alive:
            os.kill(self.pid, number)

    def kill(self):
        """Ends every process of the host at once."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self._keeper, 0)
            self.alive = False


def _keep(first_process):
    """Starts the first process of a process namespace and ends with it. A process may give its children such a namespace once, so
    each host has a process that does just this."""
    kernel.die_with_parent(signal.SIGKILL)
    os.setsid()
    kernel.unshare(kernel.NEWPID)
    pid = os.fork()
    if pid == 0:
        first_process()
    os.closerange(3, max(int(entry) for entry in os.listdir("/proc/self/fd")) + 1)
    os.waitpid(pid, 0)
    os._exit(0)


def _first_process(names, name, workers, start, report):
    try:
        kernel.die_with_parent(signal.SIGKILL)
        keep = {0, 1, 2, start, report, *(worker.sink for worker in workers)}
        for fd in [int(entry) for entry in os.listdir("/proc/self/fd")]:
            if fd not in keep:
                try:
                    os.close(fd)
                except OSError:
                    pass  # the listing's own
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        pid = os.readlink("/proc/self")  # as the lab sees it
        _furnish(names, name)
        os.write(report, f"{pid}\n".encode())
        # A lab that died before the first line above gives no word to start.
        if os.read(start, 1):
            network.keep_order(network.INTERFACE, names.index(name) % os.cpu_count())
            _serve(workers, report)
        os._exit(0)
    except BaseException as error:
        print(f"hostlab: {name}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


_WATCHED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}


def _furnish(names, name):
    """Namespaces, and the file systems that show them: /proc, /sys, /dev/shm, /etc/hosts."""
    kernel.unshare(kernel.NEWNET | kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC)
    socket.sethostname(name)
    kernel.show_network(["lo", network.INTERFACE])
    kernel.show_processes()
    kernel.mount("shm", "/dev/shm", "tmpfs")
    # The file may lose its name once it is mounted: then nothing of it shows.
    with open("/dev/shm/hosts", "w", encoding="ascii") as hosts:
        hosts.write("127.0.0.1 localhost\n")
        hosts.writelines(f"{network.address(index)} {other}\n" for index, other in enumerate(names))
    kernel.mount("/dev/shm/hosts", "/etc/hosts", flags=kernel.MS_BIND)
    os.unlink("/dev/shm/hosts")
    # Ordinary Ethernet hosts whatever the machine is tuned for: no waiting for IPv6 addresses; cubic, or its like at short
    # distances where the machine keeps cubic for itself.
    _set("ipv6/conf/all/disable_ipv6", "1")
    _set("ipv4/tcp_congestion_control", "cubic", "reno")
    # A socket's share of the host's own queue, as it long was: the default of newer kernels puts 8 ms of data at 1 Gbit/s before
    # the acknowledgements of the other direction.
    _set("ipv4/tcp_limit_output_bytes", "262144")


def _set(setting, *values):
    """The first of the values that the kernel takes, if it knows the setting."""
    for value in values:
        try:
            with open(f"/proc/sys/net/{setting}", "w", encoding="ascii") as file:
                file.write(value)
            return
        except OSError:
            continue


def _serve(workers, report):
    """Starts the workers, passes signals on, reaps, until the lab ends the host."""
    ranks = {}
    for worker in workers:
        try:
            pid = os.posix_spawnp(worker.command[0], worker.command, worker.environment, setsigmask=[],
                                  file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                                                (os.POSIX_SPAWN_DUP2, worker.sink, 1),
                                                (os.POSIX_SPAWN_DUP2, worker.sink, 2)])
            ranks[pid] = worker.rank
        except OSError as error:
            os.write(worker.sink, f"cannot start {worker.command[0]}: {error.strerror}\n".encode())
            os.write(report, f"exit {worker.rank} 127\n".encode())
        os.close(worker.sink)
    while True:
        number = signal.sigwait(_WATCHED)
        if number != signal.SIGCHLD:
            for pid in ranks:
                os.kill(pid, number)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in ranks:
                code = os.waitstatus_to_exitcode(status)
                os.write(report, f"exit {ranks.pop(pid)} {code if code >= 0 else 128 - code}\n".encode())
