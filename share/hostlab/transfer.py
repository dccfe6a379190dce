"""A worker of a lab that moves bytes over TCP and prints what it measured. Arguments: MEGABYTES WHO, WHO one of

    up     worker 1 sends to worker 0
    both   worker 0 and worker 1 send to each other at the same time
    into   every worker sends to worker 0 at the same time

Receivers print "received MEGABITS_PER_SECOND BUSY BEST", of payload, from the first byte to the last; BUSY is what all processors
of the machine worked meanwhile, in seconds; BEST is the rate at which the fastest stretch of STRETCH bytes
came over the wire, which a machine that stands still now and then does not slow down.
"""
import os
import socket
import sys
import threading
import time

MEGABYTES, WHO = int(sys.argv[1]), sys.argv[2]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PORT = int(os.environ["MASTER_PORT"])
# A full token bucket (network.py) adds 3% to so many bytes.
STRETCH = 4_000_000


def idle_seconds():
    """Of all processors so far."""
    with open("/proc/stat", encoding="ascii") as stat:
        words = stat.readline().split()
    return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")


def arrived():
    """Bytes that the wire has delivered to this host, read or not."""
    with open("/proc/self/net/dev", encoding="ascii") as devices:
        return next(int(line.split(":")[1].split()[0]) for line in devices if line.strip().startswith("eth0:"))


def receive(connections):
    buffer = bytearray(1 << 20)
    begin, idle, total = None, 0, 0
    marks = []  # (when, bytes that came by then)
    lock = threading.Lock()

    def take(connection):
        nonlocal begin, idle, total
        while True:
            count = connection.recv_into(buffer)
            if count == 0:
                return
            with lock:
                if begin is None:
                    begin, idle = time.monotonic(), idle_seconds()
                total += count
                marks.append((time.monotonic(), arrived()))

    threads = [threading.Thread(target=take, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    busy = seconds * os.cpu_count() - (idle_seconds() - idle)
    print(f"received {total * 8e-6 / seconds:.1f} {max(0, busy):.3f} {best_stretch(marks):.1f}", flush=True)


def best_stretch(marks):
    """Megabits per second."""
    best, first = 0, 0
    for when, count in marks:
        while count - marks[first + 1][1] >= STRETCH:
            first += 1
        if count - marks[first][1] >= STRETCH:
            best = max(best, (count - marks[first][1]) * 8e-6 / (when - marks[first][0]))
    return best


def send(connection):
    block = bytes(1 << 20)
    for _ in range(MEGABYTES):
        connection.sendall(block)
    connection.shutdown(socket.SHUT_WR)


def main():
    senders = WORLD - 1 if WHO == "into" else 1
    if RANK == 0:
        server = socket.create_server(("", PORT), backlog=WORLD)
        connections = [server.accept()[0] for _ in range(senders)]
        sending = threading.Thread(target=send, args=(connections[0],)) if WHO == "both" else None
        if sending:
            sending.start()
        receive(connections)
        if sending:
            sending.join()
    elif RANK <= senders:
        for _ in range(100):
            try:
                connection = socket.create_connection((os.environ["MASTER_ADDR"], PORT), timeout=10)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)  # worker 0 does not listen yet
        connection.settimeout(None)
        sending = threading.Thread(target=send, args=(connection,))
        sending.start()
        if WHO == "both":
            receive([connection])
        sending.join()
        connection.recv(1)


main()
