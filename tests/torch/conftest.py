"""Processes for the tests of the PyTorch backend. They are skipped where torch is not installed."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
LIMIT_S = 600  # many ranks on few cores, beside other tests


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says why nothing was run."""
    if collect_ignore_glob:
        terminalreporter.write_line("Skipped: torch is not installed (./dev setup --with torch)")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run without torch is no failure."""
    if collect_ignore_glob and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


class Ranks:
    """Forked processes, each with a rank in a group of gloo, by which tests compare."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs = 0

    def run(self, size: int, program: Callable[[int, int], None], killed: tuple[int, ...] = ()) -> list[str]:
        """Runs the program as each rank: program(rank, size). Returns each rank's last words; fails if one fails."""
        self._runs += 1
        place = self._directory / str(self._runs)
        place.mkdir()
        children = [self._fork(rank, size, program, place) for rank in range(size)]
        for rank, child in enumerate(children):
            _, status = os.waitpid(child, 0)
            expected = -signal.SIGKILL if rank in killed else 0
            assert os.waitstatus_to_exitcode(status) == expected, f"rank {rank}:\n{words(place, rank)}"
        return [words(place, rank) for rank in range(size)]

    @staticmethod
    def _fork(rank: int, size: int, program: Callable[[int, int], None], place: Path) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            signal.alarm(LIMIT_S)
            out = os.open(place / f"out-{rank}", os.O_WRONLY | os.O_CREAT)
            for descriptor in (1, 2):
                os.dup2(out, descriptor)
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            faulthandler.dump_traceback_later(LIMIT_S - 5, file=2)
            import torch.distributed as dist

            torch_threads()
            store = dist.FileStore(str(place / "store"), size)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
            program(rank, size)
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stdout__)
        finally:
            sys.__stdout__.flush()
            os._exit(code)


def torch_threads() -> None:
    """One thread each: threads do not survive a fork."""
    import torch

    torch.set_num_threads(1)


def words(place: Path, rank: int) -> str:
    """The output of a rank."""
    file = place / f"out-{rank}"
    return file.read_text(errors="replace") if file.exists() else ""


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    """For the processes of a test."""
    return Ranks(tmp_path)
