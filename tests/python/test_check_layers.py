"""The layer check finds what it is there to find, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_layers.py"

CLEAN = {
    "protocol/ids.hpp": "#include <cstdint>\n",
    "fabric/seams.hpp": '#include "protocol/ids.hpp"\n',
    "fabric/host/host.cpp": '#include "fabric/seams.hpp"\n#include <sys/uio.h>\n',
    "fabric/sim/sim.hpp": '#include "fabric/seams.hpp"\n',
    "engine/engine.hpp": '#include "fabric/seams.hpp"\n#include <coroutine>\n',
    "client/client.hpp": '#include "protocol/ids.hpp"\n#include <mutex>\n',
    "service/service.cpp": '#include "engine/engine.hpp"\n#include "fabric/seams.hpp"\n',
    "sim/simulation.cpp": '#include "engine/engine.hpp"\n#include "fabric/sim/sim.hpp"\n',
    "mpi/init.cpp": '#include <mpi.h>\n#include "client/client.hpp"\n',
}


def check(source: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return subprocess.run([sys.executable, SCRIPT, source], capture_output=True, text=True, check=False)


def test_a_clean_tree_passes(tmp_path: Path) -> None:
    result = check(tmp_path, CLEAN)
    assert result.returncode == 0, result.stderr
    assert f"{len(CLEAN)} files, 0 includes against the layers" in result.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("protocol/ids.hpp", '#include "engine/engine.hpp"'),
        ("engine/engine.hpp", '#include "service/loop/service.cpp"'),
        ("engine/engine.hpp", '#include "fabric/host/host.cpp"'),
        ("engine/engine.hpp", "#include <thread>"),
        ("engine/engine.hpp", "#include <chrono>"),
        ("engine/engine.hpp", "#include <sys/socket.h>"),
        ("fabric/host/host.cpp", '#include "engine/engine.hpp"'),
        ("fabric/host/host.cpp", '#include "fabric/sim/sim.hpp"'),
        ("client/client.hpp", '#include "engine/engine.hpp"'),
        ("client/client.hpp", "#include <mpi.h>"),
        ("service/service.cpp", '#include "client/client.hpp"'),
        ("sim/simulation.cpp", '#include "fabric/host/host.cpp"'),
        ("mpi/init.cpp", '#include "engine/engine.hpp"'),
        ("mpi/init.cpp", '  #  include "service/service.cpp"'),
        ("mpi/init.cpp", '#include "client.hpp"'),
    ],
)
def test_a_planted_arrow_is_found(tmp_path: Path, file: str, line: str) -> None:
    result = check(tmp_path, CLEAN | {file: CLEAN[file] + line + "\n"})
    assert result.returncode == 1
    assert f"{tmp_path / file}:{CLEAN[file].count(chr(10)) + 1}: " in result.stderr


def test_an_empty_tree_is_not_a_pass(tmp_path: Path) -> None:
    assert check(tmp_path, {}).returncode == 1


def test_this_project_keeps_its_layers() -> None:
    result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_circle_within_a_layer_is_found(tmp_path: Path) -> None:
    circle = {
        "client/group.hpp": '#include "client/posts.hpp"\n',
        "client/posts.hpp": "",
        "client/posts.cpp": '#include "client/posts.hpp"\n#include "client/slots.hpp"\n',
        "client/slots.hpp": '#include "client/group.hpp"\n',
    }
    result = check(tmp_path, CLEAN | circle)
    assert result.returncode == 1
    assert "3 units include each other in circles, 0 may: client/group, client/posts, client/slots" in result.stderr


def test_a_unit_may_include_what_includes_nothing_back(tmp_path: Path) -> None:
    line = {"client/group.hpp": '#include "client/posts.hpp"\n', "client/posts.hpp": '#include "client/slots.hpp"\n'}
    result = check(tmp_path, CLEAN | line | {"client/slots.hpp": ""})
    assert result.returncode == 0, result.stderr


def test_an_arrow_between_rooms_is_found(tmp_path: Path) -> None:
    rooms = {
        "protocol/wire/control.hpp": '#include "protocol/ids.hpp"\n#include "protocol/shared/segment.hpp"\n',
        "protocol/shared/segment.hpp": "",
        "service/loop/watch.hpp": '#include "service/keeper/supervise/hung_services.hpp"\n',
        "service/keeper/supervise/hung_services.hpp": "",
    }
    assert check(tmp_path, CLEAN | rooms).returncode == 0
    backward = {"protocol/shared/segment.hpp": '#include "protocol/wire/control.hpp"\n'}
    assert "protocol/shared must not include" in check(tmp_path, CLEAN | rooms | backward).stderr


def test_a_file_in_no_room_is_found(tmp_path: Path) -> None:
    result = check(tmp_path, CLEAN | {"protocol/drawer/things.hpp": ""})
    assert result.returncode == 1
    assert "protocol/drawer/things.hpp:1: belongs to no room" in result.stderr


def test_two_files_of_one_name_are_found(tmp_path: Path) -> None:
    pair = {"client/posts.hpp": "", "client/posts.cpp": '#include "client/posts.hpp"\n'}
    assert check(tmp_path, CLEAN | pair).returncode == 0
    result = check(tmp_path, CLEAN | pair | {"engine/posts.hpp": ""})
    assert result.returncode == 1
    assert "2 files have one name, rename them to say what each is: client/posts, engine/posts" in result.stderr
