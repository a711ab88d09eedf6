"""The command itself: its arguments, its errors, its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_report import EXAMPLE
from typed import typed

from outrigger import __version__, captured, cli, formats, tables
from outrigger.artifacts import Artifacts
from outrigger.cli import COMMANDS, MOVED, _uncolored, name_of, needed
from outrigger.errors import UserError
from outrigger.info import HugePages, Reach, Wire, huge_pages_finding, reach_findings, wire_finding


@pytest.mark.parametrize("name", MOVED)
def test_a_name_of_before_is_refused_with_the_new_one(name: str) -> None:
    result = outrigger(*name.split(), "--help")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"outrigger: `outrigger {name}` is now `outrigger {MOVED[name]}`\n"
    assert name_of(MOVED[name].split()) == MOVED[name]


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (["--native", "true", "--", "p"], True),
        (["-n", "2", "--live", "on", "p"], True),
        (["-n2", "--native", "1", "p"], True),
        (["--native", "true"], False),
        (["--native", "--", "true", "p"], False),
        (["-n", "2", "p", "--native", "true", "x"], False),
        (["-n", "1", "p"], False),
    ],
)
def test_a_switch_takes_no_value(given: list[str], refused: bool) -> None:
    if not refused:
        cli.check_switches(given)
        return
    with pytest.raises(UserError, match="takes no value"):
        cli.check_switches(given)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run --algorithm ialltoal=ring_pull -- true", "no such collective as 'ialltoal'; did you mean ialltoall?"),
        ("run --algorithm ialltoall=ringpull -- true", "no such algorithm as 'ringpull'; did you mean ring_pull?"),
        ("run --choice fixd -- true", "--choice fixd: no such choice; did you mean fixed?"),
        ("run --choice x -- true", "--choice x: no such choice; there are measured, early, fixed"),
        ("run --reach cam -- true", "did you mean cma?"),
        ("bench iallgater", "did you mean iallgather?"),
        ("bench fft3d --grid 3,4", "--grid 3,4: write 3 numbers"),
        ("bench halo --grid 3,x", "--grid 3,x: write 2 numbers"),
        ("bench halo --memory mallok", "did you mean malloc?"),
        ("bench halo --memory malloc,alloc_mem", "an example uses one kind"),
        ("demo -n 1", "-n 1: at least 2 ranks are needed"),
        ("run -np 0 -- true", "-n 0: at least one rank"),
        ("lab tune --out a.txt", "--out a.txt: its name must end with .toml"),
        ("lab calibrate -o a.txt", "--out a.txt: a cluster file ends with .toml"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(words: str, message: str) -> None:
    found = typed(words.split())
    assert isinstance(found.exception, UserError) and message in str(found.exception), found.output


@pytest.mark.parametrize("words", ["bench --iterations 0", "bench training --layers 0", "bench halo --pretend-nodes 0"])
def test_numbers_that_cannot_be_are_refused(words: str) -> None:
    found = typed(words.split())
    assert found.exit_code == 2 and f"Invalid value for '{words.split()[-2]}'" in found.output


def outrigger(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outrigger", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (["run", "--", "p"], ["run"]),
        (["bench", "ialltoall"], ["bench"]),
        (["bench", "halo"], ["bench halo"]),
        (["lab", "cluster", "up"], ["lab cluster"]),
        (["lab", "x"], [name for name in COMMANDS if name.startswith("lab ")]),
        (["--version"], []),
        ([], list(COMMANDS)),
        (["--help"], list(COMMANDS)),
        (["runn"], list(COMMANDS)),
    ],
)
def test_a_command_needs_itself_alone_and_what_is_none_all(given: list[str], known: list[str]) -> None:
    assert list(needed(given)) == known


def test_running_a_program_loads_nothing_of_other_commands(built: Artifacts) -> None:
    seen = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "outrigger", "run", "--dry-run", "--native", "--", "true"],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "OUTRIGGER_BUILD": str(built.root)},
    )  # fmt: skip
    loaded = {line.rpartition("|")[2].strip() for line in seen.stderr.splitlines()}
    assert "outrigger.run" in loaded
    assert not loaded & {"aiohttp", "numpy", "matplotlib", "pyroute2", "outrigger.tune", "outrigger.live.top"}


def test_a_word_that_is_no_command_is_named_and_the_help_lists_all() -> None:
    wrong = outrigger("runn")
    assert wrong.returncode == 2
    assert "No such command 'runn'" in wrong.stderr and "Did you mean 'run'" in wrong.stderr
    help_ = outrigger("--help")
    assert help_.returncode == 0
    assert all(words.split()[0] in help_.stdout for words in COMMANDS)


def test_commands_say_their_version(built: Artifacts) -> None:
    said = outrigger("--version")
    assert (said.returncode, said.stdout) == (0, f"outrigger {__version__}\n")
    for program in ("outriggerd", "outrigger-sim"):
        path = built.programs / program
        assert subprocess.check_output([path, "--version"], text=True, timeout=60) == f"{program} {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--", "/no/such/program"), "/no/such/program: no such program"),
        (("run", "--algorithm", "x", "--", "true"), "--algorithm x: write COLLECTIVE=ALGORITHM"),
        (
            ("run", "--reach", "telepathy", "--", "true"),
            "'telepathy' is no reach; there are mapped, xpmem, cma, copier, rdma",
        ),
        (("run", "-n", "0", "--", "true"), "-n 0: at least one rank is needed"),
        (("run", "-n", "-2", "--", "true"), "-n -2: at least one rank is needed"),
        (("run", "-n", "0", "--native", "--pretend-nodes", "2", "--", "true"), "-n 0: at least one rank is needed"),
        (("run", "--huge-pages", "2M", "--", "true"), "--huge-pages 2M: on or off"),
        (("bench", "--huge-pages", "yes"), "--huge-pages yes: on or off"),
        (("run", "--native", "--report", "--", "true"), "--native leaves the library out"),
        (("run", "--report", "f.json", "--", "true"), "--report-to f.json writes it"),
        (("run", "--report-to", "out.txt", "--", "true"), "--report-to out.txt: a report is written as JSON"),
        (("bench", "-n", "0"), "-n 0: at least one rank is needed"),
        (("bench", "ialltoallx"), "collective 'ialltoallx'"),
        (("bench", "--sizes", "1M:16K"), "ends before it begins"),
        (("info", "--build", "/no/such/directory"), "--build /no/such/directory: no such directory"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = outrigger(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("outrigger: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("wire", "good", "words"),
    [
        ({"kind": "rdma", "transports": "rc_mlx5/mlx5_0:1"}, True, ("rdma (rc_mlx5/mlx5_0:1)", "moves memory")),
        ({"kind": "messages", "transports": "tcp"}, True, ("messages (tcp)", "processors copy")),
        ({"problem": "no network"}, False, ("none", "no network", "natively")),
    ],
)
def test_info_names_the_wire(wire: dict[str, str], good: bool, words: tuple[str, ...]) -> None:
    finding = wire_finding(Wire(**wire))
    assert finding.good == good
    assert all(word in f"{finding.value}: {finding.remark}" for word in words)


@pytest.mark.parametrize(
    ("huge", "good", "words"),
    [
        ({"bytes": 2 << 20, "why_not": ""}, True, ("2 MiB", "copied repeatedly")),
        ({"bytes": 0, "why_not": "needs Linux 6.1"}, False, ("no", "needs Linux 6.1")),
    ],
)
def test_info_says_whether_there_are_huge_pages(huge: dict[str, object], good: bool, words: tuple[str, ...]) -> None:
    finding = huge_pages_finding(formats.convert(huge, HugePages, "huge pages"))
    assert finding.good == good
    assert all(word in f"{finding.value}: {finding.remark}" for word in words)


def test_info_says_of_every_reach_whether_it_can_be_had(built: Artifacts) -> None:
    here = Reach(mapped=True, cma=True, xpmem=False, xpmem_why_not="no module", copier=True)
    found = {each.name.removeprefix("reach "): each for each in reach_findings(here, tables.read(built).reaches)}
    assert tuple(found) == tables.read(built).selectable
    assert [name for name, each in found.items() if each.good] == ["mapped", "cma", "copier", "bounce"]
    assert found["xpmem"].remark == "no module"
    assert "--dpufile" in found["rdma"].remark and "--dpufile" in found["alias"].remark


def test_info_works_without_a_build(tmp_path: Path) -> None:
    result = outrigger("info", "--json", "--build", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert "is missing" in result.stdout


def test_colors_can_be_switched_off() -> None:
    """Before the command's words only: behind them it may be the program's."""
    assert _uncolored(["--no-color", "info"]) == ["--no-color"]
    assert _uncolored(["run", "--", "p", "--no-color"]) == []
    colored = subprocess.run(
        [sys.executable, "-m", "outrigger", "info"], capture_output=True, text=True, check=True,
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"},
    )  # fmt: skip
    plain = subprocess.run(
        [sys.executable, "-m", "outrigger", "--no-color", "info"], capture_output=True, text=True, check=True,
        env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"},
    )  # fmt: skip
    color = "\x1b[32m"
    assert color in colored.stdout and color not in plain.stdout


def test_an_interrupt_while_modules_are_read_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    monkeypatch.setattr("sys.argv", ["outrigger", "info"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_encoding_ends_a_command(tmp_path: Path, encoding: str) -> None:
    """Neither that of the output nor that of the program, whose names are in the report."""
    call = {
        "call": "MPI_Ialltoall", "form": "nonblocking", "collective": "ialltoall", "communicator": "r\u00e4nge \u2192",
        "size": 2, "calls": 3, "offloaded": 3, "native": {}, "bytes": {"calls": 3, "sum": 3, "min": 1, "max": 1},
        "seconds": {"sum": 3e-6, "min": 1e-6, "max": 2e-6},
    }  # fmt: skip
    text = json.dumps(EXAMPLE | {"calls": [call]}, ensure_ascii=False).encode().replace(b"nge", b"ng\xff")
    (tmp_path / "r.json").write_bytes(text)
    result = subprocess.run(
        [sys.executable, "-m", "outrigger", "report", str(tmp_path / "r.json")],
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    shown = result.stdout.decode(encoding)
    assert {"ascii": "r?ng? >", "latin-1": "r\u00e4ng? >", "utf-8": "r\u00e4ng\ufffd \u2192"}[encoding] in shown
    missing = subprocess.run(
        [sys.executable, "-m", "outrigger", "report", tmp_path / os.fsdecode(b"\xff.json")],
        capture_output=True, timeout=60, check=False, env={**os.environ, "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert missing.returncode == 2 and b"Traceback" not in missing.stderr, missing.stderr


def test_programs_may_print_what_is_no_text() -> None:
    assert captured.captured(["printf", r"a\377b"], 60).stdout == "a\ufffdb"
