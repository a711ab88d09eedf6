"""A stranger on the network connects to a job's service processes, or to `outriggerd dpu`, and sends garbage, or
recorded bytes of another run. It has no effect, and the job's bytes are correct.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import random
import re
import secrets
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Job, Mpi, Process, wait_until

pytestmark = pytest.mark.one_machine

ALL_PROTOCOLS = 0x0003
OUTGOING = 4
RECORDED_BYTES = 64 << 10  # of each stream
TCP_LISTENS = "0A"
BEGINS = 0x02
MAGIC = b"GWRO"
CALL, ANSWER, ACCEPT = 1, 2, 3


Place = tuple[str, int]
"""An address and a port."""


def listens_at(process: Process) -> list[Place]:
    """Addresses at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(descriptor)))
    lines = [line.split() for line in Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]]
    ours = [words[1].split(":") for words in lines if words[3] == TCP_LISTENS and words[9] in inodes]
    return [(socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)) for address, port in ours]


@dataclass
class Recorder:
    """Records TCP traffic on this machine: the first bytes of each stream, in order."""

    streams: dict[tuple[int, int], dict[int, bytes]] = field(default_factory=dict)  # by ports, then by offset
    begins: dict[tuple[int, int], int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Recorder]:
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PROTOCOLS))
        listener.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        listener.settimeout(0.1)
        thread = threading.Thread(target=self._listen, args=(listener,))
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()
            listener.close()

    def _listen(self, listener: socket.socket) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                packet, address = listener.recvfrom(1 << 17)
                if address[2] != OUTGOING and packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
                    self._take(packet)

    def _take(self, packet: bytes) -> None:
        segment = packet[(packet[0] & 15) * 4 : struct.unpack_from(">H", packet, 2)[0] or len(packet)]
        source, destination, number = struct.unpack_from(">HHI", segment)
        stream, data = (source, destination), segment[(segment[12] >> 4) * 4 :]
        if segment[13] & BEGINS:
            self.begins[stream] = number + 1
        elif data and stream in self.begins:
            place = (number - self.begins[stream]) % (1 << 32)
            if place < RECORDED_BYTES:
                self.streams.setdefault(stream, {})[place] = data

    def at(self, places: list[Place]) -> list[bytes]:
        """Bytes sent to and from these addresses, without gaps."""
        ports = {port for _, port in places}
        return [self._whole(parts) for stream, parts in self.streams.items() if ports & set(stream)]

    @staticmethod
    def _whole(parts: dict[int, bytes]) -> bytes:
        whole = b""
        for place, data in sorted(parts.items()):
            if place > len(whole):
                break
            whole += data[len(whole) - place :]
        return whole


@pytest.fixture
def two_nodes(offload: Mpi) -> Mpi:
    offload.pretend_nodes = 2
    return offload


def at_work(mpi: Mpi, operations: int) -> tuple[Job, list[Process]]:
    """A job that compares all bytes with native's, and its service processes."""
    job = mpi.start(4, ["differential", "--seed", "77", "--operations", str(operations)])
    found: list[Process] = []

    def all_there() -> bool:
        found[:] = mpi.daemons("serve")
        return len(found) == 2 and all(listens_at(process) for process in found)

    assert wait_until(all_there, 30), job.text()
    return job, found


def must_be_undisturbed(mpi: Mpi, job: Job) -> None:
    result = job.wait(150).ok()
    assert "no difference" in result.out
    assert "outrigger: " not in result.out, result.out
    assert sum(entry["bytes"]["wire"] for entry in result.report["collectives"]) > 0
    mpi.nothing_left()


class Visits:
    """Connections to service processes that end with the test."""

    def __init__(self) -> None:
        self.open: list[socket.socket] = []

    def pay(self, place: Place, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # closed by the other end, or the job is over
            visit = socket.create_connection(place, timeout=5)
            self.open.append(visit)
            visit.sendall(data)

    def closed_by_the_other_end(self) -> int:
        closed = 0
        for visit in self.open:
            visit.settimeout(0.01)
            try:
                while visit.recv(1 << 16):
                    pass
                closed += 1
            except TimeoutError:
                pass
            except OSError:
                closed += 1
        return closed

    def end(self) -> None:
        for visit in self.open:
            visit.close()


def test_rubbish_at_a_service_processs_ports(two_nodes):
    job, services = at_work(two_nodes, 6000 if two_nodes.name == "openmpi" else 800)
    places = [place for process in services for place in listens_at(process)]
    assert len(places) >= 2
    random_bytes = random.Random(7)
    visits = Visits()
    for _ in range(20):
        for place in places:
            visits.pay(place, b"")
            visits.pay(place, b"GET / HTTP/1.1\r\n\r\n")
            visits.pay(place, random_bytes.randbytes(random_bytes.randrange(1, 5000)))
        time.sleep(0.02)
    assert job.process.poll() is None, f"over before it was visited\n{job.text()}"
    assert len(visits.open) == 3 * 20 * len(places)
    assert {process.pid for process in two_nodes.daemons("serve")} == {process.pid for process in services}, job.text()
    time.sleep(0.5)
    print(f"{visits.closed_by_the_other_end()} of {len(visits.open)} connections were closed")
    visits.end()
    must_be_undisturbed(two_nodes, job)


def handshakes_of_a_run(mpi: Mpi) -> list[tuple[int, bytes, bytes]]:
    """The handshakes in a run's traffic: step, sender's nonce and proof of each message."""
    with Recorder().at_work() as recorder:
        job, services = at_work(mpi, 60)
        places = [place for process in services for place in listens_at(process)]
        must_be_undisturbed(mpi, job)
    found = []
    for stream in recorder.at(places):
        for match in re.finditer(re.escape(MAGIC), stream):
            step = struct.unpack_from("<I", stream, match.start() + 8)[0]
            nonce, _, proven = struct.unpack_from("32s32s32s", stream, match.start() + 24)
            found.append((step, nonce, proven))
    return found


def test_what_goes_over_the_network_proves_nothing_later(two_nodes):
    """Each run has its own nonces, and so its own proofs. Replays of recorded ones: tests/ucx."""
    runs = [handshakes_of_a_run(two_nodes) for _ in range(2)]
    for handshakes in runs:
        assert {step for step, _, _ in handshakes} == {CALL, ANSWER, ACCEPT}, handshakes
        assert all(proven.strip(b"\0") for step, _, proven in handshakes if step != CALL)
        assert len({nonce for _, nonce, _ in handshakes}) == 2
    first, second = ({nonce for _, nonce, _ in run} | {proven for _, _, proven in run if any(proven)} for run in runs)
    assert not first & second


# --- the daemon of a DPU ------------------------------------------------------------------------------------------

HOST, DPU = 1, 2
HANDSHAKE, PROOF = 48, 32


@contextlib.contextmanager
def dpu_daemon(build: Path, secret: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A daemon that waits for its host, and its port."""
    daemon = subprocess.Popen(
        [build / "bin" / "outriggerd", "dpu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert daemon.stdin and daemon.stdout
        daemon.stdin.write(f"{secret}\n")
        daemon.stdin.flush()
        ready = re.search(r" port=(\d+) ", daemon.stdout.readline())
        assert ready
        yield daemon, int(ready[1])
        daemon.stdin.close()
        assert daemon.wait(10) is not None
    finally:
        daemon.kill()
        daemon.wait()


def exactly(visit: socket.socket, count: int) -> bytes:
    """Fewer if the other end closes before."""
    data = b""
    while len(data) < count and (more := visit.recv(count - len(data))):
        data += more
    return data


def proof(secret: str, side: int, version: int, of_host: bytes, of_dpu: bytes) -> bytes:
    label = b"outrigger dpu handshake"
    statement = struct.pack("<Q", len(label)) + label + struct.pack("<QQ", side, version) + of_host + of_dpu
    return hmac.new(bytes.fromhex(secret), statement, hashlib.sha256).digest()


def shake_hands(port: int, secret: str, nonce: bytes) -> tuple[bytes, bool]:
    """Handshake as by a host's keeper. Returns all received bytes, and if the DPU has proven itself."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as visit:
        theirs = exactly(visit, HANDSHAKE)
        magic, version, order, side = struct.unpack_from("<IIII", theirs)
        assert side == DPU
        sent = struct.pack("<IIII", magic, version, order, HOST) + nonce
        sent += proof(secret, HOST, version, nonce, theirs[16:])
        visit.sendall(sent)
        answer = exactly(visit, PROOF)
        return sent, hmac.compare_digest(answer, proof(secret, DPU, version, nonce, theirs[16:]))


def test_strangers_do_not_keep_a_host_from_its_dpu(build):
    """Strangers that send nothing, more than its backlog; that send garbage; that have another secret."""
    secret = secrets.token_hex(16)
    with dpu_daemon(build, secret) as (daemon, port), contextlib.ExitStack() as visits:
        for _ in range(50):
            visits.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        with socket.create_connection(("127.0.0.1", port), timeout=10) as visit:
            visit.sendall(b"GET / HTTP/1.1\r\n\r\n" * 20)
            with contextlib.suppress(ConnectionResetError):
                while visit.recv(1 << 16):
                    pass
        assert not shake_hands(port, secrets.token_hex(16), os.urandom(32))[1]
        before = time.monotonic()
        assert shake_hands(port, secret, os.urandom(32))[1]
        assert time.monotonic() - before < 4  # without the 5 s of a stranger
        assert daemon.wait(10) == 0, "its host has gone"


def test_a_recorded_handshake_opens_no_dpu(build):
    secret = secrets.token_hex(16)
    with dpu_daemon(build, secret) as (daemon, port):
        recorded, proven = shake_hands(port, secret, os.urandom(32))
        assert proven
        assert bytes.fromhex(secret) not in recorded and secret.encode() not in recorded
        assert daemon.wait(10) == 0
    with dpu_daemon(build, secret) as (daemon, port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as visit:
            visit.sendall(recorded)
            assert len(exactly(visit, HANDSHAKE + PROOF)) == HANDSHAKE, "it has proven itself to a stranger"
        assert daemon.poll() is None
        assert shake_hands(port, secret, os.urandom(32))[1], "and its host is let in"
