"""A worker of a lab that moves bytes over TCP and prints what it measured. Arguments: MEGABYTES WHO, WHO one of

    up     worker 1 sends to worker 0
    both   worker 0 and worker 1 send to each other at the same time
    into   every worker sends to worker 0 at the same time

Receivers print "received MEGABITS_PER_SECOND", of payload, from the first byte to the last.
"""
import os
import socket
import sys
import threading
import time

MEGABYTES, WHO = int(sys.argv[1]), sys.argv[2]
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PORT = int(os.environ["MASTER_PORT"])


def receive(connections):
    buffer = bytearray(1 << 20)
    begin, total = None, 0

    def take(connection):
        nonlocal begin, total
        while True:
            count = connection.recv_into(buffer)
            if count == 0:
                return
            begin = begin or time.monotonic()
            total += count

    threads = [threading.Thread(target=take, args=(c,)) for c in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"received {total * 8e-6 / (time.monotonic() - begin):.1f}", flush=True)


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
