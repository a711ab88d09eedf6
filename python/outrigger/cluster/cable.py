"""Cables that lose, duplicate, delay and reorder frames, like a bad network, drawn from a seed.

    host's eth0 (a TAP device)  <-- this process -->  its port at the switch (a TAP device)

A process of the cluster reads each frame and writes it to the other end: now, later, twice or not at all. This needs no
kernel module such as netem, and the same seed gives the same faults for the same frames. Frames are complete and
correct: their checksums are made before they come here.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import struct
import time
from dataclasses import dataclass
from typing import NoReturn

from outrigger.cluster.state import Faults

_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_FRAME_AT_MOST = 65_536
_FRAMES_AT_A_TIME = 64
"""From one end, before the other ends' turn."""
_HELD_BACK_US = (200, 5_000)
"""Delay of a reordered frame behind later ones."""


def tap(name: str) -> int:
    """A TAP device in the calling process's network namespace; it exists as long as the descriptor."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
    except BaseException:
        os.close(device)
        raise
    return device


@dataclass(order=True)
class _Late:
    """A delayed frame."""

    at: float
    number: int
    to: int
    frame: bytes


class Cables:
    """All cables of a cluster, in one process."""

    def __init__(self, faults: Faults, latency_us: int, pairs: list[tuple[int, int]]) -> None:
        self._faults = faults
        self._latency_s = latency_us / 2e6  # a route from host to host has two cables
        self._draw = random.Random(faults.seed)
        self._other_end = {**dict(pairs), **{far: near for near, far in pairs}}
        self._late: list[_Late] = []
        self._sent = 0

    def run(self) -> NoReturn:
        """Carries frames until killed."""
        selector = selectors.DefaultSelector()
        for end in self._other_end:
            selector.register(end, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select(self._seconds_to_next()):
                self._take_from(key.fd)
            self._deliver(time.monotonic())

    def _seconds_to_next(self) -> float | None:
        return max(0.0, self._late[0].at - time.monotonic()) if self._late else None

    def _take_from(self, end: int) -> None:
        for _ in range(_FRAMES_AT_A_TIME):
            try:
                frame = os.read(end, _FRAME_AT_MOST)
            except OSError:  # nothing more, or the device is down
                return
            self._send(self._other_end[end], frame)

    def _send(self, to: int, frame: bytes) -> None:
        if self._draw.random() < self._faults.loss:
            return
        for _ in range(2 if self._draw.random() < self._faults.duplicate else 1):
            delay_s = self._latency_s
            if self._draw.random() < self._faults.reorder:
                delay_s += self._draw.uniform(*_HELD_BACK_US) / 1e6
            if delay_s:
                self._sent += 1
                heapq.heappush(self._late, _Late(time.monotonic() + delay_s, self._sent, to, frame))
            else:
                _write(to, frame)

    def _deliver(self, now: float) -> None:
        while self._late and self._late[0].at <= now:
            late = heapq.heappop(self._late)
            _write(late.to, late.frame)


def _write(to: int, frame: bytes) -> None:
    """A device that is down, or has no room, loses it."""
    with contextlib.suppress(OSError):
        os.write(to, frame)
