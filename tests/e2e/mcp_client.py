"""Questions to `ccltui serve-mcp` by the client of the official SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from shell import CCLTUI, environment

TOOLS = ("open", "explain", "metric", "table", "collective", "kernel", "compare", "window")
Call = tuple[str, dict[str, Any]]


def converse(root: Path, calls: Sequence[Call]) -> list[tuple[bool, str]]:
    """Answers of one server to questions in order: whether refused, and the text."""
    # Imported here: it takes 1 CPU-s, and every worker imports the modules of all tests.
    from mcp import ClientSession, StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=CCLTUI[0], args=["serve-mcp", "--root", str(root)], env=environment({})
    )

    async def ask() -> list[tuple[bool, str]]:
        found = []
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            assert tuple(tool.name for tool in tools) == TOOLS
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
            assert all(tool.description for tool in tools)
            for name, arguments in calls:
                answer = await session.call_tool(name, arguments)
                (content,) = answer.content
                assert content.type == "text"
                found.append((bool(answer.is_error), content.text))
        return found

    return anyio.run(ask)


def answers(root: Path, calls: Sequence[Call]) -> list[dict[str, Any]]:
    """Answers as documents; none may be refused."""
    found = converse(root, calls)
    assert [text for refused, text in found if refused] == []
    return [json.loads(text) for _, text in found]
