"""The explorer in a browser of this machine, through textual-serve.

Whoever can open the page can read the traces and write exports, so only this machine can: the
server listens on the loopback address, and refuses requests whose Host or Origin is another, as a
page elsewhere that points its own name here would send. Other users of the machine can connect too:
the address that is printed has a secret, without which they get nothing.
"""

from __future__ import annotations

import hmac
import re
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.parsers.errors import NotFoundError

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK: Final = "127.0.0.1"
_SECRET_BYTES: Final = 24
_LINKED: Final = re.compile(r"""<link\b[^>]*\bhref="(?:https?:)?//(?!127\.0\.0\.1)[^>]*>""")
_FONT: Final = """<style>
@font-face { font-family: "Roboto Mono"; font-weight: 100 700;
  src: url("/static/fonts/RobotoMono-VariableFont_wght.ttf") }
</style>"""
_FORBIDDEN: Final = "ccltui serves the user who started it, at the address that it printed"


def command_of(arguments: Sequence[str]) -> str:
    """The command that the server starts for each visitor: these arguments without ``--serve``."""
    words = list(arguments)
    for at, word in enumerate(words):
        if word.partition("=")[0] == "--serve":
            takes_next = word == "--serve" and words[at + 1 : at + 2] and words[at + 1].isdigit()
            del words[at : at + (2 if takes_next else 1)]
            break
    return shlex.join([sys.executable, "-P", "-m", "ccltui", *words])


def is_ours(host: str, origin: str | None, port: int) -> bool:
    """Whether a request came to this server under its own name, from a page of its own."""
    names = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
    return host in names and origin in (None, *(f"http://{name}" for name in names))


def serve(arguments: Sequence[str], port: int) -> int:
    """Serve until it is interrupted; the exit status.

    Raises NotFoundError where textual-serve is not installed.
    """
    try:
        from textual_serve.server import Server  # noqa: PLC0415
    except ImportError as error:
        raise NotFoundError(
            "--serve needs textual-serve: pip install 'ccltui[serve]'", path="textual-serve"
        ) from error

    secret = secrets.token_urlsafe(_SECRET_BYTES)

    class LoopbackServer(Server):
        """Refuses what another site or another user may have sent."""

        async def _make_app(self) -> web.Application:
            app: web.Application = await super()._make_app()
            app.middlewares.append(_guard(port, secret))
            app.middlewares.append(_from_here_alone(port))
            return app

        async def on_startup(self, _: web.Application) -> None:
            print(f"ccltui: http://{LOOPBACK}:{port}/?token={secret}", flush=True)
            print("ccltui: ctrl+c ends it; keep the address to yourself", flush=True)

    LoopbackServer(command_of(arguments), host=LOOPBACK, port=port, title="ccltui").serve()
    return 0


def knows(secret: str, shown: str | None) -> bool:
    """Whether a request shows the secret; the time that it takes tells nothing of it."""
    return shown is not None and hmac.compare_digest(secret.encode(), shown.encode())


def without_other_hosts(page: str) -> str:
    """Return the page of textual-serve with its own copy of the font that it links elsewhere.

    A browser on a login node may wait for a host that it cannot reach, and one that can be reached
    would learn of every start.
    """
    return _LINKED.sub(_FONT, page)


def _from_here_alone(port: int) -> Any:
    """Return a middleware that takes other hosts out of pages, and has browsers refuse them."""
    from aiohttp import web  # noqa: PLC0415

    here = f"'self' ws://{LOOPBACK}:{port} http://{LOOPBACK}:{port}"
    policy = f"default-src {here} data: 'unsafe-inline'"

    @web.middleware
    async def local(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        response = await handler(request)
        if isinstance(response, web.Response) and response.content_type == "text/html":
            response.text = without_other_hosts(response.text or "")
            response.headers["Content-Security-Policy"] = policy
        return response

    return local


def _guard(port: int, secret: str) -> Any:
    from aiohttp import web  # noqa: PLC0415

    cookie = f"ccltui-{port}"  # browsers send it to every port of the address

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not is_ours(request.host, request.headers.get("Origin"), port):
            raise web.HTTPForbidden(text="ccltui serves this machine only")
        by_address = knows(secret, request.query.get("token"))
        if not (by_address or knows(secret, request.cookies.get(cookie))):
            raise web.HTTPForbidden(text=_FORBIDDEN)
        response = await handler(request)
        if by_address and not response.prepared:  # a socket has its headers sent already
            response.set_cookie(cookie, secret, httponly=True, samesite="Strict")
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    return check
