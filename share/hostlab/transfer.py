"""A worker of a lab that moves bytes over TCP and prints what it measured. Arguments: MEGABYTES WHO, WHO one of

    up     worker 1 sends to worker 0
    both   worker 0 and worker 1 send to each other at the same time
    into   every worker sends to worker 0 at the same time

Receivers print "received MEGABITS_PER_SECOND BUSY", of payload, from the first byte to the last; BUSY is what all processors
of the machine worked meanwhile, in seconds.
"""
import os
import socket
import sys
import threading
import time

MEGABYTES, WHO = int(sys.argv[1]), sys.argv[2]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PORT = int(os.environ["MASTER_PORT"])


def idle_seconds():
    """Of all processors so far."""
    with open("/proc/stat", encoding="ascii") as stat:
        words = stat.readline().split()
    return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")


def receive(connections):
    buffer = bytearray(1 << 20)
    begin, idle, total = None, 0, 0

    def take(connection):
        nonlocal begin, idle, total
        while True:
            count = connection.recv_into(buffer)
            if count == 0:
                return
            if begin is None:
                begin, idle = time.monotonic(), idle_seconds()
            total += count

    threads = [threading.Thread(target=take, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    busy = seconds * os.cpu_count() - (idle_seconds() - idle)
    print(f"received {total * 8e-6 / seconds:.1f} {max(0, busy):.3f}", flush=True)


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
