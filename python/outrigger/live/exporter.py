"""`outrigger exporter`: this node's jobs for Prometheus, and for `top` and `watch` of other nodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from outrigger.live import answer, options, sources
from outrigger.live import web as server
from outrigger.live.metrics import Jobs
from outrigger.terminal import note

METRICS_PATH = "/metrics"
_HELLO = f"outrigger exporter: {METRICS_PATH} for Prometheus, {sources.NODES_PATH} for `outrigger top --from`\n"


def application(source: sources.Source, access: server.Access) -> web.Application:
    """Handlers of all paths."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Jobs(source))

    async def metrics(request: web.Request) -> web.Response:
        encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await asyncio.to_thread(encoder, registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def nodes(_request: web.Request) -> web.Response:
        told = await asyncio.to_thread(source)
        return web.Response(body=answer.encode(told), content_type="application/json")

    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text=_HELLO)

    app = server.application(access)
    app.router.add_get(METRICS_PATH, metrics)
    app.router.add_get(sources.NODES_PATH, nodes)
    app.router.add_get("/", hello)
    return app


def _print_lines(source: sources.Source) -> None:
    """Prints until the reader closes the pipe."""
    out = sys.stdout.buffer
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        while True:
            out.write(answer.encode(source()) + b"\n")
            out.flush()
            time.sleep(1.0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())  # Python flushes the rest at exit


def exporter(
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Address to listen on; beyond loopback needs --token-file."),
    ] = "127.0.0.1:9464",
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token that clients must send.")
    ] = None,
    feed: options.Feed = None,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="Serve nothing; print /nodes, one line a second."),
    ] = False,
) -> None:
    """Serve this node's running jobs to Prometheus, and to top and watch on other nodes.

    Prometheus reads /metrics; top and watch read /nodes. As root it serves the jobs of all users, else your own.
    """
    if lines:
        return _print_lines(sources.feed(feed) if feed is not None else sources.local)
    address = server.parse_address(listen)
    access = server.access_of(address, sources.read_token(token_file))
    source = sources.feed(feed) if feed is not None else sources.local

    def started(at: server.Address) -> None:
        note(f"listening on http://{at}{METRICS_PATH}")

    server.serve(server.Server(application(source, access), address, started))
    return None
