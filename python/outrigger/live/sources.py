"""Sources of figures: this machine's keepers, exporters of other machines, or a recorded file."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from outrigger.errors import UserError
from outrigger.live import answer, keepers, snapshot, torch_jobs
from outrigger.live.answer import Told

NODES_PATH = "/nodes"
_TIMEOUT_SECONDS = 3.0


Source = Callable[[], Told]


def local() -> Told:
    """Jobs of this machine that this user may read."""
    try:
        mpi, torch = keepers.read(), torch_jobs.read()
    except UserError as error:
        return Told((), (str(error),))
    return Told((*mpi.nodes, *torch.nodes), (*mpi.problems, *torch.problems), mpi.refused + torch.refused)


def parse_token(text: str) -> str:
    """Checks a bearer token: one word, long enough not to be guessed."""
    token = text.strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError("a token is one word of at least 16 characters; `openssl rand -hex 16` makes one")
    return token


def read_token(file: Path | None) -> str | None:
    """Token in --token-file."""
    if file is None:
        return None
    try:
        return parse_token(file.read_text())
    except OSError as error:
        raise UserError(f"--token-file {file}: {error.strerror}") from error


def exporter(url: str, token: str | None) -> Source:
    """Reads `outrigger exporter` of another machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"--from {url}: an address like http://node7:9464 was expected")
    address = f"{parts.scheme}://{parts.netloc}{NODES_PATH}"

    def ask() -> Told:
        request = urllib.request.Request(address)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(
                request, timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context()
            ) as reply:
                text = reply.read(snapshot.MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            why = "it needs a token: --token-file" if error.code == 401 else f"it answers {error.code}"
            return Told((), (f"{url}: {why}",))
        except (OSError, ValueError) as error:
            return Told((), (f"{url} cannot be reached: {getattr(error, 'reason', error)}",))
        if len(text) > snapshot.MOST_BYTES:
            return Told((), (f"{url} sends too much data",))
        try:
            return answer.decode(text, f"what {url} says", url)
        except UserError as error:
            return Told((), (str(error),))

    return ask


def feed(file: Path) -> Source:
    """Recorded data of nodes, a line of JSON each time: played back once per second, repeatedly."""
    try:
        lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise UserError(f"--feed {file}: {error.strerror}") from error
    if not lines:
        raise UserError(f"--feed {file}: it is empty")
    times = [answer.decode(line, f"--feed {file}, line {number + 1}") for number, line in enumerate(lines)]
    began = time.monotonic()

    def ask() -> Told:
        turn = int(time.monotonic() - began)
        again, at = divmod(turn, len(times))
        if not again:
            return times[at]
        # Counts and clocks continue from their last values, so that the repetition is new data.
        shift = again * len(times) * 1_000_000_000
        nodes = tuple(msgspec.structs.replace(node, at_ns=node.at_ns + shift) for node in times[at].nodes)
        return replace(times[at], nodes=nodes)

    return ask


def together(sources: Sequence[Source]) -> Source:
    """All of them; of two answers from the same keeper, the later one."""

    def ask() -> Told:
        told = [source() for source in sources]
        nodes = {(node.host, node.keeper): node for one in told for node in one.nodes}
        problems = tuple(problem for one in told for problem in one.problems)
        return Told(tuple(nodes.values()), problems, sum(one.refused for one in told))

    return ask


def of(
    addresses: Sequence[str], token_file: Path | None, feed_file: Path | None = None, by_ssh: Sequence[Source] = ()
) -> Source:
    """Sources from --from, --token-file, --feed and --hosts; without any: this machine."""
    if feed_file is not None:
        if addresses or by_ssh:
            raise UserError("--feed excludes --from and --hosts: a feed is used alone")
        return feed(feed_file)
    if not addresses and not by_ssh:
        return local
    token = read_token(token_file)
    asked = [local if address == "local" else exporter(address, token) for address in addresses]
    return together([*asked, *by_ssh])
