"""Programs under torchrun: the examples, and restarts after a killed rank."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


def torchrun(ranks: int, *words: str | Path) -> str:
    """The output of a program that must succeed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), environment.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *words]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("example", ["fully_shard", "parallelize_module"])
def test_an_example_agrees_with_a_single_process(example: str, ranks: int) -> None:
    assert "in one process" in torchrun(ranks, ROOT / "examples" / "torch" / f"{example}.py")


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "using" / "pytorch.md").read_text()
    block = page.split("    # train.py\n")[1].split("\n\n    torchrun")[0]
    program = tmp_path / "train.py"
    # The import is for checkouts that are not installed, and so have no entry point.
    program.write_text("import outrigger.torch\n" + textwrap.dedent(block))
    assert re.search(r"^loss 0\.\d{4}$", torchrun(2, program), re.MULTILINE)


RESTARTED = """
import os, signal, sys, torch, torch.distributed as dist
import outrigger.torch
dist.init_process_group("outrigger")
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
for step in range(20):
    if attempt == 0 and step == 10 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    model(torch.ones(4, 100)).sum().backward()
sys.stdout.write(f"rank {dist.get_rank()} has finished attempt {attempt}\\n")  # at once: ranks share the output
dist.destroy_process_group()
"""


def running(program: Path) -> list[str]:
    """The processes that run a program."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(program).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            pass  # it has ended
    return found


def test_torchrun_restarts_a_killed_rank(tmp_path: Path) -> None:
    program = tmp_path / "restarted.py"
    program.write_text(RESTARTED)
    output = torchrun(3, "--max-restarts", "1", program)
    finished = sorted(line for line in output.splitlines() if "has finished attempt" in line)
    assert finished == [f"rank {rank} has finished attempt 1" for rank in range(3)]
    assert running(program) == []
