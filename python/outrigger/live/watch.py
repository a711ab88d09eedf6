"""`outrigger watch`: running jobs on a web page."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from aiohttp import web

from outrigger.live import options, remote, sources
from outrigger.live import web as server
from outrigger.live.tracker import Tracker
from outrigger.terminal import note

MOST_PAGES = 16
"""At the same time; more get an error."""
_PAGES = {
    "index.html": "text/html",
    "watch.css": "text/css",
    "watch.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_EVENTS = "/events"


class Updates:
    """Updates at intervals, also without viewers, so that the last minutes are complete when a page opens."""

    def __init__(self, source: sources.Source, interval: float) -> None:
        self._source, self._interval = source, interval
        self._tracker = Tracker()
        self._latest = b""
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Forever. A thread reads the data, as keepers may be slow."""
        while True:
            began = time.monotonic()
            latest = await asyncio.to_thread(self._look)
            async with self._changed:
                self._latest = latest
                self._changed.notify_all()
            await asyncio.sleep(max(0.05, self._interval - (time.monotonic() - began)))

    def _look(self) -> bytes:
        told = self._source()
        return msgspec.json.encode(self._tracker.update(told.nodes, time.monotonic(), told.problems, told.refused))

    async def wait(self, after: bytes) -> bytes:
        """The latest data that differs from `after`: a slow page misses some."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._latest is not after)
            return self._latest


async def _send(request: web.Request, updates: Updates) -> web.StreamResponse:
    """Server-sent events until the page closes. Uncompressed: aiohttp's compressor delays events."""
    answer = web.StreamResponse(headers={**server.HEADERS, "Content-Type": "text/event-stream"})
    await answer.prepare(request)
    said = b""
    try:
        while True:
            said = await updates.wait(said)
            await answer.write(b"data: " + said + b"\n\n")
    except (ConnectionError, asyncio.CancelledError):
        return answer


def application(source: sources.Source, access: server.Access, interval: float = 1.0) -> web.Application:
    """The page and its events."""
    updates_key = web.AppKey("updates", Updates)
    pages = 0

    async def look(app: web.Application) -> AsyncIterator[None]:
        app[updates_key] = Updates(source, interval)
        task = asyncio.create_task(app[updates_key].run())
        yield
        task.cancel()

    async def events(request: web.Request) -> web.StreamResponse:
        nonlocal pages
        if pages >= MOST_PAGES:
            return web.Response(status=503, text=f"{MOST_PAGES} pages are open already\n", headers={"Retry-After": "5"})
        pages += 1
        try:
            return await _send(request, request.app[updates_key])
        finally:
            pages -= 1

    async def page(request: web.Request) -> web.Response:
        name = request.path.removeprefix("/") or "index.html"
        body = resources.files("outrigger.live").joinpath("page", name).read_bytes()
        return web.Response(body=body, content_type=_PAGES[name], charset="utf-8")

    app = server.application(access)
    app.cleanup_ctx.append(look)
    app.router.add_get(_EVENTS, events)
    for name in ("", *_PAGES):
        app.router.add_get(f"/{name}", page)
    return app


def watch(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    interval: options.Interval = 1.0,
    addresses: options.From = None,
    hosts: options.Hosts = None,
    token_file: options.TokenFile = None,
    feed: options.Feed = None,
    access_token_file: Annotated[
        Path | None,
        typer.Option(
            "--access-token-file", metavar="FILE", help="File with the page's token; unless given, it is random."
        ),
    ] = None,
) -> None:
    """Show running jobs on a web page, and print its address with a token.

    The page only reads. To open it on another machine, use an SSH tunnel or --listen.
    """
    address = server.parse_address(listen)
    source = sources.of(addresses or [], token_file, feed, remote.hosts(hosts or []))
    token = sources.read_token(access_token_file) or secrets.token_urlsafe(24)
    access = server.access_of(address, token, cookie="outrigger")

    def started(at: server.Address) -> None:
        access.cookie = f"outrigger-{at.port}"  # browsers share cookies between ports
        note(f"open http://{at}/?token={token}")

    server.serve(server.Server(application(source, access, interval), address, started))
