"""Measures how much full links slow down computation on the hosts of a cluster in a box, which share cores.

    outrigger lab cluster up --nodes 4 --rate 1gbit --cores-per-host 1
    .venv/bin/python bench/link_cost.py            # without copies: sendfile, and a receiver that drops
    .venv/bin/python bench/link_cost.py --copy     # plain send and receive

Each host counts the turns of a loop for some seconds, alternately with and without sending to the next host at the
full rate of its link. By equal work, an operation that keeps the links busy exposes at least the printed time: the
kernel's work for links and bridge runs on the cores on which the hosts compute.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from outrigger.cluster import control

PORT = 7000
PIECE_BYTES = 1 << 18
SECONDS = 4.0
START_S = 6.0
"""Time for the processes of all hosts to start."""


def receive(copy: bool) -> None:
    """Receives until it is killed."""

    def take(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, PIECE_BYTES)
        room = bytearray(PIECE_BYTES)
        while connection.recv_into(room, PIECE_BYTES, 0 if copy else socket.MSG_TRUNC):
            pass

    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=take, args=(connection,), daemon=True).start()


def send(host: str, start: float, copy: bool) -> None:
    source = os.memfd_create("bytes")
    os.ftruncate(source, PIECE_BYTES)
    piece = bytes(PIECE_BYTES)
    with socket.create_connection((host, PORT)) as connection:
        time.sleep(max(0.0, start - 0.5 - time.time()))
        sent = 0
        while time.time() < start + SECONDS + 0.5:
            sent += connection.send(piece) if copy else os.sendfile(connection.fileno(), source, 0, PIECE_BYTES)
    print(f"{sent / (SECONDS + 1) / 1e6:.0f}")


def work(start: float) -> None:
    time.sleep(max(0.0, start - time.time()))
    turns = 0
    while time.time() < start + SECONDS:
        for _ in range(1000):
            turns += 1
    print(turns)


def on(host: str, *words: str) -> subprocess.Popen[str]:
    command = [str(control.agent()), "-n", host, sys.executable, str(Path(__file__).resolve()), *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> int:
    output, _ = process.communicate(timeout=START_S + SECONDS + 30)
    return int(output)


def turns(hosts: list[str], *, sending: bool, options: list[str]) -> int:
    """The total of all hosts."""
    start = str(time.time() + START_S)
    computing = [on(host, "work", start) for host in hosts]
    neighbours = zip(hosts, hosts[1:] + hosts[:1], strict=True)
    senders = [on(host, "send", neighbour, start, *options) for host, neighbour in neighbours] if sending else []
    total = sum(map(said, computing))
    if senders:
        print("  sent, MB/s:", *map(said, senders))
    return total


def measure(rounds: int, options: list[str]) -> None:
    hosts = [host.name for host in control.look()]
    receivers = [on(host, "receive", *options) for host in hosts]
    try:
        ratios = []
        for _ in range(rounds):
            alone = turns(hosts, sending=False, options=options)
            ratios.append(turns(hosts, sending=True, options=options) / alone)
            print(f"computation beside full links: {ratios[-1]:.3f} of what it is alone", flush=True)
    finally:
        for receiver in receivers:
            receiver.terminate()
            receiver.wait()
    exposed = 100 * (1 / statistics.median(ratios) - 1)
    print(f"An operation that keeps the links busy exposes at least {exposed:.1f} % by equal work here.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copy", action="store_true", help="let processes copy the bytes, as they usually do")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("part", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    options = ["--copy"] if arguments.copy else []
    match arguments.part:
        case ["receive"]:
            receive(arguments.copy)
        case ["send", host, start]:
            send(host, float(start), arguments.copy)
        case ["work", start]:
            work(float(start))
        case _:
            measure(arguments.rounds, options)


if __name__ == "__main__":
    main()
