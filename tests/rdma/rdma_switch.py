"""The network between guests: a switch that carries Ethernet frames between the sockets of their emulators."""

from __future__ import annotations

import contextlib
import selectors
import socket
import tempfile
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_FRAME_BYTES = 16 << 10
FRAMES_AT_ONCE = 32
WAITING_FRAMES = 8192
"""For an emulator that does not read now. More are lost, as on a real cable; soft RoCE takes long to notice."""
SOON_S = 0.001
"""Until what waits is tried again: a socket that has no connection does not tell when there is room."""


@dataclass
class Port:
    """A guest's cable."""

    name: str
    here: socket.socket
    there: Path
    plugged: bool = True
    waiting: deque[bytes] = field(default_factory=lambda: deque(maxlen=WAITING_FRAMES))

    def send(self, frame: bytes) -> None:
        """Drops the frame if there is no receiver, as on a real cable."""
        if self.plugged:
            self.waiting.append(frame)
            self.deliver()

    def deliver(self) -> None:
        """Sends as much as the emulator accepts now."""
        while self.waiting:
            try:
                self.here.sendto(self.waiting[0], socket.MSG_DONTWAIT, str(self.there))
            except BlockingIOError:
                return
            except OSError:
                pass
            self.waiting.popleft()


class Switch:
    """Learns which address is behind which port, and sends frames for others to all."""

    def __init__(self) -> None:
        # A socket's path must be short.
        self._directory = tempfile.TemporaryDirectory(prefix="outrigger-switch-")
        self._ports: dict[str, Port] = {}
        self._behind: dict[bytes, Port] = {}
        self._selector = selectors.DefaultSelector()
        self._ending = False
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def netdev(self, name: str) -> str:
        """qemu's words for a new cable to a guest."""
        here, there = (Path(self._directory.name) / f"{name}.{end}" for end in ("switch", "guest"))
        self._unplug(name)
        for old in (here, there):
            old.unlink(missing_ok=True)
        end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        end.bind(str(here))
        self._ports[name] = port = Port(name, end, there)
        self._selector.register(end, selectors.EVENT_READ, port)
        return f"dgram,local.type=unix,local.path={there},remote.type=unix,remote.path={here}"

    def plug(self, name: str, *, plugged: bool) -> None:
        """Pulls a guest's cable, or puts it back."""
        self._ports[name].plugged = plugged

    def end(self) -> None:
        self._ending = True
        self._thread.join()
        for name in list(self._ports):
            self._unplug(name)
        self._directory.cleanup()

    def _unplug(self, name: str) -> None:
        port = self._ports.pop(name, None)
        if port is not None:
            self._selector.unregister(port.here)
            port.here.close()

    def _carry(self) -> None:
        while not self._ending:
            ports = list(self._ports.values())
            for port in ports:
                port.deliver()
            soon = SOON_S if any(port.waiting for port in ports) else 0.2
            for key, _ in self._selector.select(soon) if self._selector.get_map() else []:
                with contextlib.suppress(OSError):
                    self._take(key.data)
            if not self._selector.get_map():
                threading.Event().wait(0.05)

    def _take(self, port: Port) -> None:
        for _ in range(FRAMES_AT_ONCE):
            frame = port.here.recv(LARGEST_FRAME_BYTES, socket.MSG_DONTWAIT)
            if not port.plugged:
                continue
            to, origin = frame[:6], frame[6:12]
            self._behind[origin] = port
            known = self._behind.get(to)
            for other in [known] if known is not None else list(self._ports.values()):
                if other is not port:
                    other.send(frame)
