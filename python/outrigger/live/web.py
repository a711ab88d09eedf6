"""A small read-only web server with access control.

Every request passes `guard`: GET or HEAD, a Host that is this server's name (so that a foreign page whose name resolves
to this server cannot read it), and the token, if there is one: as a bearer token, in a cookie, or once in the address.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Middleware

from outrigger.errors import UserError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_QUERY = "token"
MOST_REQUEST_BYTES = 1024


@dataclass(frozen=True)
class Address:
    """Listening address of a server."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """True if only processes of this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """HOST:PORT, with IPv6 in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--listen {text}: HOST:PORT was expected, like 127.0.0.1:9464")
    return Address(host, int(port))


@dataclass
class Access:
    """Rules of access."""

    token: str | None
    hosts: tuple[str, ...]
    """Accepted names of the server, without port; empty: any, because there is a token."""
    cookie: str = ""
    """Its name; empty: no browser is expected."""

    def knows(self, host: str) -> bool:
        """Checks a Host header."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return not self.hosts or name.lower() in self.hosts

    def is_token(self, said: str | None) -> bool:
        """Compares in constant time."""
        return self.token is not None and said is not None and hmac.compare_digest(said.encode(), self.token.encode())

    def lets_in(self, request: web.Request) -> bool:
        """Checks its token."""
        if self.token is None:
            return True
        bearer = request.headers.get("Authorization", "")
        if bearer.startswith("Bearer "):
            return self.is_token(bearer.removeprefix("Bearer "))
        return bool(self.cookie) and self.is_token(request.cookies.get(self.cookie))


def access_of(address: Address, token: str | None, cookie: str = "") -> Access:
    """Beyond loopback a token is required; on loopback the server's names are checked."""
    if not address.loopback and token is None:
        raise UserError(f"--listen {address}: others can reach this address, so a token is needed: --token-file FILE")
    names = _LOOPBACK_NAMES if address.loopback else ()
    return Access(token, names, cookie)


def guard(access: Access) -> Middleware:
    """Runs before every handler."""

    def refuse(request: web.Request) -> web.StreamResponse | None:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="this server is read only\n", headers={"Allow": "GET, HEAD"})
        if not access.knows(request.host):
            return web.Response(status=421, text="unknown host name\n")
        if access.cookie and access.is_token(request.query.get(_QUERY)):
            moved = web.Response(status=303, headers={"Location": request.path})
            moved.set_cookie(access.cookie, access.token or "", httponly=True, samesite="Strict", path="/")
            return moved
        if not access.lets_in(request):
            text = "a token is needed: open the address printed by the command\n" if access.cookie else ""
            return web.Response(status=401, text=text or "a token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return None

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = refuse(request)
        if refused is None:
            try:
                refused = await handler(request)
            except web.HTTPException as error:
                refused = web.Response(status=error.status, text=f"{error.reason}\n")
        if not refused.prepared:
            refused.headers.update(HEADERS)
        return refused

    return guarded


def application(access: Access) -> web.Application:
    """Without handlers."""
    return web.Application(middlewares=[guard(access)], client_max_size=MOST_REQUEST_BYTES)


@dataclass
class Server:
    """A running server."""

    app: web.Application
    address: Address
    started: Callable[[Address], None] = field(default=lambda _address: None)
    """Called with the address once it listens: for port 0 with the chosen port."""

    async def run(self) -> None:
        """Until SIGINT or SIGTERM."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self.address.host, self.address.port)
            try:
                await site.start()
            except OSError as error:
                raise UserError(f"--listen {self.address}: {error.strerror or error}") from error
            self.started(Address(self.address.host, runner.addresses[0][1]))
            await stop.wait()
        finally:
            await runner.cleanup()


def serve(server: Server) -> None:
    """Blocks until its end."""
    asyncio.run(server.run())
