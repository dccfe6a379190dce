"""The wires of a lab: a switch (a bridge in the lab's own network namespace) with one shaped port per host.

The host's end of a wire is eth0 in the host's namespace, the switch's end is portN. Each end limits what it sends, so a host
has its rate in both directions. Every function here runs in the namespace of the switch.
"""
import contextlib
import os
import re
import subprocess

import kernel

INTERFACE = "eth0"
SWITCH = "switch"

# The bucket holds two packets of 64 KB (what a sender with segmentation offload hands over) and what the link carries while
# the kernel's timer is late: less, and a busy machine loses rate; more, and a message after a pause begins faster than the link.
BURST_BYTES, BURST_SECONDS = 136_000, 300e-6
# A port of a switch drops when its buffer is full. A host never drops what it sends itself: its queue takes whatever its
# sockets are allowed to have in it.
PORT_BYTES, PORT_SECONDS = 1_000_000, 5e-3
HOST_BYTES = 64_000_000

_RATE = re.compile(r"([0-9]*\.?[0-9]+)\s*(k|m|g)bit", re.IGNORECASE)
_LATENCY = re.compile(r"([0-9]*\.?[0-9]+)\s*(us|ms|s)", re.IGNORECASE)


def parse_rate(text):
    """Bits per second of "1gbit", "2.5gbit", "500mbit"; None for "none". ValueError otherwise."""
    if text == "none":
        return None
    match = _RATE.fullmatch(text)
    if not match or float(match[1]) <= 0:
        raise ValueError(f"'{text}' is not a rate: write 500mbit, 2.5gbit, or none")
    return float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]


def parse_latency(text):
    """Microseconds of "1ms", "250us". ValueError otherwise."""
    match = _LATENCY.fullmatch(text)
    if not match:
        raise ValueError(f"'{text}' is not a latency: write 250us or 1ms")
    return float(match[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[match[2].lower()]


def address(host):
    return f"10.77.0.{host + 1}"


def port(host):
    return f"port{host}"


def _run(command, text=None):
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


def _batch(program, lines, pid=None):
    """Runs lines of ip or tc at the switch, or in the namespace of a process."""
    inside = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    _run([*inside, program, "-batch", "-"], "".join(line + "\n" for line in lines))


def has_netem():
    """Whether this kernel can delay packets. REQUIRES: the switch is there."""
    try:
        _batch("tc", [f"qdisc add dev {SWITCH} root netem delay 1ms", f"qdisc del dev {SWITCH} root"])
    except RuntimeError:
        return False
    return True


def keep_order(device, cpu):
    """Lets one processor receive all packets of a device. Without this the timers of the token buckets spread a connection's
    packets over the processors, where they overtake each other and look lost to TCP. Only root may say which; for others the
    device gathers its packets in a queue of its own, which one processor empties at a time."""
    try:
        with open(f"/sys/class/net/{device}/queues/rx-0/rps_cpus", "w", encoding="ascii") as file:
            file.write(f"{1 << cpu:x}")
    except OSError:
        kernel.gather_packets(device)


def pass_unseen():
    """A switch does not show packets to the machine's firewall, where the kernel would. It is a matter of speed: a machine that
    does not let this be changed has a slower switch."""
    for table in ("iptables", "ip6tables", "arptables"):
        with contextlib.suppress(OSError), open(f"/proc/sys/net/bridge/bridge-nf-call-{table}", "w", encoding="ascii") as file:
            file.write("0")


def make_switch():
    _batch("ip", ["link set lo up", f"link add {SWITCH} type bridge stp_state 0 forward_delay 0",
                  f"link set {SWITCH} up"])
    pass_unseen()


def plug(host, pid):
    """Wires a host whose first process is pid."""
    _batch("ip", [f"link add {port(host)} type veth peer name {INTERFACE} netns {pid}",
                  f"link set {port(host)} master {SWITCH} up"])
    keep_order(port(host), host % os.cpu_count())
    _batch("ip", ["link set lo up", f"addr add {address(host)}/24 dev {INTERFACE}", f"link set {INTERFACE} up"], pid)


def _shaping(device, bits, latency_us, queue):
    lines = []
    parent = "root"
    if latency_us:
        # Half of a round trip's two delays lies at either end of the wire.
        lines.append(f"qdisc replace dev {device} root handle 1: netem delay {latency_us / 2:.0f}us limit 100000")
        parent = "parent 1:1"
    if bits:
        burst = max(BURST_BYTES, bits / 8 * BURST_SECONDS)
        lines.append(f"qdisc replace dev {device} {parent} handle 10: tbf rate {bits:.0f}bit "
                     f"burst {burst:.0f}b limit {queue:.0f}b")
    elif not latency_us:
        lines.append(f"qdisc replace dev {device} root pfifo_fast")
    return lines


def shape(host, pid, bits, latency_us):
    """Sets the rate (None: unlimited) of both directions and the one-way latency between two hosts."""
    # A packet from host to host passes two shaped ends: each adds half of the latency.
    buffer = max(PORT_BYTES, (bits or 0) / 8 * PORT_SECONDS)
    _batch("tc", _shaping(port(host), bits, latency_us, buffer))
    _batch("tc", _shaping(INTERFACE, bits, latency_us, HOST_BYTES), pid)


def set_link(host, up):
    """Pulls the cable at the switch, or puts it back."""
    _batch("ip", [f"link set {port(host)} {'up' if up else 'down'}"])


def counters():
    """Bytes per host as the switch's ports counted them: {host: (sent, received)}, seen from the host."""
    result = {}
    with open("/proc/self/net/dev", encoding="ascii") as table:
        for line in table:
            match = re.match(r"\s*port(\d+):\s*(.*)", line)
            if match:
                numbers = match[2].split()
                result[int(match[1])] = (int(numbers[0]), int(numbers[8]))
    return result
