"""The explorer in a browser: on this machine only, and only for pages of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from planted_modules import plant

from ccltui.parsers.errors import NotFoundError
from ccltui.tui.serve import command_of, is_ours, without_other_hosts


def test_visitors_get_the_same_command_without_the_server() -> None:
    command = command_of(["my run", "--serve", "8999", "--theme", "light"])

    assert shlex.split(command) == [
        *(sys.executable, "-P", "-m", "ccltui", "my run", "--theme", "light"),
    ]
    assert shlex.split(command_of(["--serve", "run"]))[4:] == ["run"]
    assert shlex.split(command_of(["run", "--serve=9000"]))[4:] == ["run"]
    assert shlex.split(command_of(["a;b", "--serve"]))[4:] == ["a;b"]


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        ("127.0.0.1:8790", None, True),
        ("localhost:8790", "http://localhost:8790", True),
        ("localhost:8790", "http://evil.example", False),
        ("evil.example:8790", None, False),
        ("evil.example:8790", "http://evil.example:8790", False),
        ("127.0.0.1:80", None, False),
        ("localhost:8790", "null", False),
    ],
)
def test_who_may_ask(host: str, origin: str | None, ours: bool) -> None:
    assert is_ours(host, origin, 8790) is ours


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from ccltui.tui.serve import serve

    monkeypatch.setitem(sys.modules, "textual_serve.server", None)

    with pytest.raises(NotFoundError, match=re.escape("pip install 'ccltui[serve]'")):
        serve(["run"], 8790)


@pytest.fixture
def port() -> int:
    """One that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def served(port: int, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The command as a server of an empty directory: its port and its secret."""
    (tmp_path / "run").mkdir()
    words = [sys.executable, "-P", "-m", "ccltui", str(tmp_path / "run")]
    with serving(words, port) as secret:
        yield port, secret


@contextlib.contextmanager
def serving(words: list[str], port: int, cwd: Path | None = None) -> Iterator[str]:
    """A command as a server, started from a shell that knows nothing of safe paths; its secret."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    process = subprocess.Popen(
        [*words, "--serve", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=cwd,
        env=environment,
    )
    try:
        assert process.stdout is not None
        printed = process.stdout.readline().decode()
        address = f"ccltui: http://127.0.0.1:{port}/?token="
        assert printed.startswith(address)
        deadline = time.monotonic() + 20
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield printed.removeprefix(address).strip()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=10)


async def shown(url: str, text: bytes, **headers: str) -> bytes:
    """What the explorer sends to a page, until a text is in it."""
    import aiohttp

    got = b""
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.ws_connect(url) as page,
        asyncio.timeout(20),
    ):
        await page.send_str(json.dumps(["resize", {"width": 80, "height": 24}]))
        async for message in page:
            got += message.data if isinstance(message.data, bytes) else b""
            if text in got:
                break
    return got


async def test_a_page_of_its_own_shows_the_explorer_and_others_are_refused(
    served: tuple[int, str],
) -> None:
    import aiohttp

    port, secret = served
    base, asked = f"http://127.0.0.1:{port}", f"?token={secret}"
    elsewhere = {"Host": "evil.example"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(base + asked, headers=elsewhere) as page,
    ):
        assert page.status == 403
        assert await page.text() == "ccltui serves this machine only"
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        await shown(f"{base}/ws{asked}", b"ccltui", Origin="http://evil.example")

    got = await shown(f"{base}/ws{asked}&width=80&height=24", b"No trace")

    assert b"Traceback" not in got


async def test_other_users_of_the_machine_get_nothing(served: tuple[int, str]) -> None:
    """They can connect to the address, and do not know the secret."""
    import aiohttp

    port, secret = served
    base = f"http://127.0.0.1:{port}"
    for asked in ("", "?token=", f"?token={secret[:-1]}", f"?token={secret}x", "?token=\u00fc"):
        async with aiohttp.ClientSession() as session, session.get(base + asked) as page:
            assert page.status == 403
            assert secret not in await page.text()
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await shown(f"{base}/ws{asked}", b"ccltui")


async def test_the_page_needs_the_secret_once(served: tuple[int, str]) -> None:
    import aiohttp

    port, secret = served
    base = f"http://127.0.0.1:{port}"
    jar = aiohttp.CookieJar(unsafe=True)  # takes cookies of addresses without a name
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{base}/?token={secret}") as page:
            assert page.status == 200
            kept = page.headers["Set-Cookie"].lower()
        async with session.get(base) as page:
            assert page.status == 200
        async with session.ws_connect(f"{base}/ws?width=80&height=24") as socket_of_page:
            assert not socket_of_page.closed
    assert "httponly" in kept
    assert "samesite=strict" in kept


async def test_no_page_names_another_host(served: tuple[int, str]) -> None:
    """Neither the page nor what it loads from this server."""
    import aiohttp

    port, secret = served
    base = f"http://127.0.0.1:{port}"
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{base}/?token={secret}") as page:
            text = await page.text()
            policy = page.headers["Content-Security-Policy"]
        loaded = re.findall(r"""(?:src|href)="([^"]+)"|url\("([^"]+)"\)""", text)
        urls = [one or other for one, other in loaded]
        assert len(urls) > 3
        for url in urls:
            assert url.startswith((f"{base}/static/", "/static/"))
            async with session.get(base + url.removeprefix(base)) as part:
                assert part.status == 200
                body = await part.read()
            assert re.findall(rb"url\(.?https?:|@import|fonts\.g", body) == []

    assert without_other_hosts(text) == text
    assert "http" not in policy.replace(base, "").replace(f"ws://127.0.0.1:{port}", "")


async def test_no_file_beside_the_traces_is_imported(port: int, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    planted = plant(tmp_path / "run", tmp_path / "marks")
    command = str(Path(sys.executable).parent / "ccltui")

    with serving([command, "."], port, cwd=planted.directory) as secret:
        asked = f"token={secret}&width=80&height=24"
        await shown(f"http://127.0.0.1:{port}/ws?{asked}", b"No trace")

    assert planted.imported() == []


def test_only_the_loopback_address_is_listened_on(served: tuple[int, str]) -> None:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    listening = [line.split()[1] for line in lines if line.split()[3] == "0A"]
    mine = [place for place in listening if int(place.rpartition(":")[2], 16) == served[0]]

    assert mine == [f"0100007F:{served[0]:04X}"]
