"""`top --hosts` by a real ssh and a real sshd, which talk through a pipe: nothing listens anywhere."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from outrigger.live import answer, remote, sources
from outrigger.live.simulated import SimulatedJob

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
SEPARATION = Path("/run/sshd")
"""Where sshd, as root, wants to have nothing. Only the service's start makes it."""

pytestmark = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="needs openssh-server and openssh-client"
)


@pytest.fixture
def separation() -> Iterator[None]:
    """That sshd starts, and that nothing is left of it."""
    ours = os.geteuid() == 0 and not SEPARATION.exists()
    if ours:
        SEPARATION.mkdir(mode=0o755)
    yield
    if ours:
        SEPARATION.rmdir()


def key(file: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return file.with_suffix(".pub").read_text()


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separation: None) -> Path:
    """Any name is a host, with one key; `stranger` is let in nowhere, and `unknown` is not known here."""
    known, mine = key(tmp_path / "host"), key(tmp_path / "mine")
    key(tmp_path / "strange")
    (tmp_path / "authorized").write_text(mine)
    (tmp_path / "known").write_text(f"host {known}")
    (tmp_path / "nobody").touch()
    (tmp_path / "sshd_config").write_text(
        f"HostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nUsePAM no\n"
    )
    (tmp_path / "ssh_config").write_text(
        f"Host unknown\n UserKnownHostsFile {tmp_path}/nobody\nHost stranger\n IdentityFile {tmp_path}/strange\n"
        f"Host * !stranger\n IdentityFile {tmp_path}/mine\n"
        f"Host *\n UserKnownHostsFile {tmp_path}/known\n HostKeyAlias host\n"
        f" User {getpass.getuser()}\n IdentitiesOnly yes\n StrictHostKeyChecking yes\n ControlPath none\n"
        f" ProxyCommand {SSHD} -i -f {tmp_path}/sshd_config\n"
    )
    program(tmp_path / "bin/ssh", f'exec {shutil.which("ssh")} -F {tmp_path}/ssh_config "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return file


def until(look, seconds: float = 60.0) -> None:
    assert wait_until(look, seconds), "it does not come"


def asked(monkeypatch: pytest.MonkeyPatch, command: Path, *names: str) -> list[remote.Host]:
    """As the command that is installed there."""
    monkeypatch.setattr(sys, "argv", [str(command)])
    return remote.hosts(names)


def test_jobs_of_other_hosts_come_by_a_real_ssh_and_a_connection_that_is_lost_is_said(network, monkeypatch):
    feed, here = network / "feed.jsonl", network / "here"
    steps = SimulatedJob(2).steps()
    feed.write_bytes(b"\n".join(answer.encode(answer.Told(next(steps), ("a keeper is odd",))) for _ in range(2)))
    run = f"PYTHONPATH={Path(__file__).resolve().parents[2]}/python {shlex.quote(sys.executable)} -m outrigger"
    good = program(network / "good/outrigger", f'echo $$ > {here}\nexec env {run} "$@" --feed {feed}')
    other = program(network / "other/outrigger", """while echo '{"live": 2, "outrigger": "9.8.7"}'; do sleep 1; done""")
    fails = program(network / "fails/outrigger", "printf 'outrigger: it is\\n  broken\\n' >&2; exit 2")
    hosts = [
        *asked(monkeypatch, good, "node7"),
        *asked(monkeypatch, other, "node8"),
        *asked(monkeypatch, fails, "node9"),
        *asked(monkeypatch, network / "absent/outrigger", "node10"),
        *asked(monkeypatch, good, "stranger,unknown"),
    ]
    ask = sources.of([], None, None, hosts)
    remote.wait_for_answers(hosts)
    expected = (
        "node7: a keeper is odd",
        "what node8 says is from Outrigger 9.8.7",
        "node9 cannot be reached by ssh: outrigger: it is broken",
        "on the PATH of ssh",
        "Permission denied (publickey). (`ssh stranger` must work without a question)",
        "Host key verification failed. (`ssh unknown` must work without a question)",
    )
    until(lambda: len(ask().nodes) == 1 and all(words in "\n".join(ask().problems) for words in expected))

    there = Path(f"/proc/{here.read_text().strip()}")
    assert there.exists()
    monkeypatch.setattr(remote, "_TRIES_AGAIN_SECONDS", 0.0)
    hosts[0]._process.kill()  # as where the network is lost
    until(lambda: any("node7 cannot be reached by ssh" in problem for problem in ask().problems))
    until(lambda: not there.exists())  # who is not read any more ends
    until(lambda: ask().nodes)  # it is tried again
    again = Path(f"/proc/{here.read_text().strip()}")
    for host in hosts:
        host._end()
    until(lambda: not again.exists())
