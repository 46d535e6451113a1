"""The explorer in a browser of this machine, through textual-serve.

Whoever can open the page can read the traces and write exports, so only this machine can: the
server listens on the loopback address, and refuses requests whose Host or Origin is another, as a
page elsewhere that points its own name here would send.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ccltui.parsers.errors import NotFoundError

if TYPE_CHECKING:
    from aiohttp import web

LOOPBACK: Final = "127.0.0.1"


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

    class LoopbackServer(Server):
        """Refuses what another site may have sent."""

        async def _make_app(self) -> web.Application:
            app: web.Application = await super()._make_app()
            app.middlewares.append(_guard(port))
            return app

    LoopbackServer(command_of(arguments), host=LOOPBACK, port=port, title="ccltui").serve()
    return 0


def _guard(port: int) -> Any:
    from aiohttp import web  # noqa: PLC0415

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not is_ours(request.host, request.headers.get("Origin"), port):
            raise web.HTTPForbidden(text="ccltui serves this machine only")
        return await handler(request)

    return check
